"""`make reference`: docs/errors.md, made from the classes of causes and errors themselves."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

from examples import classes, example, fields_of

from heaveto.causes import Described, Stop, to_data
from heaveto.errors import AgentError
from heaveto.loop import EXIT_STATUS
from heaveto.loop.outcome import kind_of, why_a_run_ended

__all__ = ["PAGE", "errors_page"]

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"

OPENING = """\
# Causes and errors

Made from the classes by `make reference`; a test compares the two. A *cause* is why work was stopped, an *error* what went
wrong. Both are exceptions whose fields are their positional arguments and whose text is made from these, so `copy`, `pickle`
and JSON keep them whole: `heaveto.causes.to_data` and `from_data`. Programs ask the class or its `code`, never the text.

Of each: its code, its class with its fields, what it says, what `why()` makes of a run that it ended (the text and the
advice, where there is any), whether trying again can help (`retryable`; "not said" where the class does not know), the exit
status of a command whose run it ended, and its JSON. A tool's errors (`tool_error` and those below it) end no run: the model
reads them and goes on. What is wrong before a run begins (a flag, a configuration, a run that is not there) is status 2.

| exit status | a run that |
|---|---|
"""

KINDS = {
    "answered": "was answered",
    "failed": "failed; trying again as it is will not help",
    "limit": "reached a limit that the user set",
    "waiting": "waits for a person",
    "stopped": "was stopped by a person or a program, from elsewhere",
    "gave_up": "gave up on something that may pass",
    "interrupted": "was interrupted with Ctrl-C",
    "shutdown": "was shut down (129 for SIGHUP)",
}
AGAIN = {True: "yes", False: "no", None: "not said"}


def errors_page() -> str:
    """The whole page."""
    parts = [OPENING.rstrip(), *(f"| {EXIT_STATUS[kind]} | {text} |" for kind, text in KINDS.items()), ""]
    parts += ["## Causes", "", *(_section(cls) for cls in classes(Stop))]
    parts += ["## Errors", "", *(_section(cls) for cls in classes(AgentError) if not issubclass(cls, Stop))]
    return "\n".join(parts).rstrip() + "\n"


def _section(cls: type[Described]) -> str:
    error = example(cls)
    kind = kind_of(error)
    told = why_a_run_ended(error)
    facts = [
        f"trying again can help: {AGAIN[error.retryable]}",
        f"exit status {EXIT_STATUS[kind]} ({kind})",
        f"of the kind {_parents(cls)}",
    ]
    lines = [f"### `{cls.code}`", "", f"`{cls.__name__}({_fields(cls)})`", "", sentence(cls), "", f"    {error}", ""]
    if told != str(error):
        lines += [f"`why`: {told}", ""]
    lines += [f"{'; '.join(facts)}.", "", "```json", json.dumps(to_data(error)), "```", ""]
    return "\n".join(lines)


def sentence(cls: type[Described]) -> str:
    """What the class stands for: the first paragraph of its own docstring."""
    own = vars(cls).get("__doc__") or ""
    return " ".join(inspect.cleandoc(own).split("\n\n")[0].split())


def _fields(cls: type[Described]) -> str:
    return ", ".join(f"{each.name}: {each.annotation}" for each in fields_of(cls))


def _parents(cls: type[Described]) -> str:
    named = [base for base in cls.__mro__[1:] if not base.__name__.startswith("_") and base not in (BaseException, object)]
    return ", ".join(base.__name__ for base in named if base not in (Described, Exception, OSError)) or "Described"


if __name__ == "__main__":
    PAGE.write_text(errors_page(), "utf-8")
    print(f"{PAGE.name}: {len(list(classes()))} classes")
