"""What the engine says. It never pretends to be a language model."""

from __future__ import annotations

from collections.abc import Iterable

from .ranking import Candidate

__all__ = ["NO_LANGUAGE_MODEL"]

NO_LANGUAGE_MODEL = (
    "I am heaveto's offline repair engine, not a language model: I only search small edits until the tests pass."
)


def hello(unseen: int = 0) -> str:
    """The first words.

    Args:
        unseen: How many images and files there are that it cannot see.
    """
    blind = f" I cannot see the {unseen} attached." if unseen > 1 else " I cannot see what is attached." if unseen else ""
    return f"{NO_LANGUAGE_MODEL}{blind} First I list the files and run the tests."


def missing_tools(names: Iterable[str]) -> str:
    wanted = ", ".join(names)
    return f"{NO_LANGUAGE_MODEL} For that I need {wanted} among the tools, and they are not; nothing was changed."


def no_tests(text: str) -> str:
    return f"{NO_LANGUAGE_MODEL} The tests could not be run, so there is nothing that I can mend: {_first_line(text)}"


def stuck(text: str, *, put_back: bool) -> str:
    state = "the project is as it was" if put_back else "an edit of mine may still be in place, so look at the difference"
    return f"{NO_LANGUAGE_MODEL} I cannot go on ({_first_line(text)}); {state}."


def already_passing(count: int) -> str:
    return f"{NO_LANGUAGE_MODEL} {_all_pass(count)} already; nothing was changed."


def mended(changes: Iterable[str], passed: int, tries: int) -> str:
    what = "\n".join(f"- {change}" for change in changes)
    edits = "1 edit" if tries == 1 else f"{tries} edits"
    close = f"{NO_LANGUAGE_MODEL} Look the change over: the tests are all that I know of."
    return f"{_all_pass(passed)} now, after {edits} tried:\n{what}\n\n{close}"


def _all_pass(count: int) -> str:
    return "The test passes" if count == 1 else f"All {count} tests pass"


def gave_up(tries: int, failed: int) -> str:
    start = f"I tried {tries} small edits and none makes all tests pass" if tries else "I found no small edit to try"
    close = f"{NO_LANGUAGE_MODEL} This one needs somebody who understands it."
    return f"{start}; {failed} still fail, and the project is as it was. {close}"


def reading(paths: list[str]) -> str:
    return (
        f"Reading {len(paths)} files that the report and the imports point at." if len(paths) > 1 else f"Reading {paths[0]}."
    )


def trying(number: int, candidates: Iterable[Candidate]) -> str:
    lines = [f"Try {number + order}, {_described(each)}" for order, each in enumerate(candidates)]
    return "\n".join(lines)


def _described(candidate: Candidate) -> str:
    before, after = (_short(text) for text in (candidate.before, candidate.after))
    return f"{candidate.path} line {candidate.line} ({candidate.kind}): `{before}` -> `{after}`"


def change(path: str, line: int, before: str, after: str) -> str:
    return f"{path} line {line}: `{_short(before)}` became `{_short(after)}`"


def _short(text: str, limit: int = 90) -> str:
    flat = " / ".join(line.strip() for line in text.split("\n"))
    return flat if len(flat) <= limit else f"{flat[: limit - 3]}..."


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0] or "no reason was given"
