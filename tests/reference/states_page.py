"""`make reference`: docs/states.md, drawn from the tables of `heaveto.journal.transitions` and the ladder's rungs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

from heaveto.journal.transitions import CALL_TRANSITIONS, DRIVE_TRANSITIONS, RUN_TRANSITIONS
from heaveto.loop.rungs import RUNGS

__all__ = ["PAGE", "diagram", "states_page"]

PAGE = Path(__file__).parents[2] / "docs" / "states.md"

OPENING = """\
# States

Made from the tables by `make reference`; a test compares the two. A run's journal is a list of records, and its state is
what they fold into. Three small machines say which record may follow; any other is refused as a damaged journal
(`journal_damaged`), whoever wrote it. `make model` explores the three together with the ladder, leases, epochs and kills.
"""

RUN = """\
## The phases of a run

`calling`: the model is to be asked. `answering`: it asked for tool calls, and each needs its answer. `answered`: it has
answered, and only something new that is said makes the run go on.
"""

DRIVES = """\
## Its drives

A drive is one process that works on the run, from `drive.started` to `run.finished`. One that was killed leaves no end.
`word` is a person's: an approval, a verdict about a call in doubt, an undo.
"""

CALLS = """\
## A tool call

`asked`: it is still to be run. `begun`: its marker is written, so it may have changed something; a call that only reads has
none. `in_doubt`: it ended and nobody knows whether it did. `settled`: it has its answer, which never changes again. A call
found `begun` by a later drive is in doubt too. `done`, `again` and `told` are verdicts of the ladder.
"""

LADDER = """\
## The ladder

What settles a call in doubt: the first rung that has a word, each verdict written down before anything follows from it. When
none has, the run waits for a person.
"""


def states_page() -> str:
    """The whole page."""
    parts = [OPENING]
    for text, start, table in (
        (RUN, "calling", RUN_TRANSITIONS),
        (DRIVES, "driven", DRIVE_TRANSITIONS),
        (CALLS, "asked", CALL_TRANSITIONS),
    ):
        parts += [text, diagram(start, table)]
    return "\n".join([*parts, LADDER, *_rungs()]) + "\n"


def diagram(start: str, table: Mapping[tuple[str, str], str]) -> str:
    """A table as a Mermaid diagram; the steps between the same two states are on one arrow."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (before, step), after in table.items():
        arrows.setdefault((before, after), []).append(step)
    lines = [f"    {before} --> {after}: {', '.join(steps)}" for (before, after), steps in arrows.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {start}", *lines, "```", ""])


def _rungs() -> Iterator[str]:
    for number, rung in enumerate(RUNGS, 1):
        yield f"{number}. {' '.join((inspect.getdoc(rung) or '').split())}"


if __name__ == "__main__":
    PAGE.write_text(states_page(), "utf-8")
    print(f"{PAGE.name}: {sum(map(len, (RUN_TRANSITIONS, DRIVE_TRANSITIONS, CALL_TRANSITIONS)))} transitions")
