"""`make faults`: every cause and error at every point of a run where it can come, run for real, on asyncio and Trio.

The table is printed, and kept in docs/faults.md (`--write` writes it anew). The last line is the figure. Exit status 1 when
a cell comes out otherwise than the table says.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Iterator
from pathlib import Path

from opening import OPENING, run_opening
from rows import HISTORIES, POINTS, ROWS, Row
from scenes import Result, run_cell

from heaveto.testing.clocks import Backend

__all__ = ["PAGE", "check", "faults_page"]

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
LEAST_ROWS = 40

OPENING_TEXT = """\
# The fault matrix

Made by `make faults ARGS=--write` from the table in `tests/faults/rows.py`, every cell of which `make faults` runs on
asyncio and Trio: an agent is brought to the point, the fault strikes there, and what comes of it is compared. A part of
the cells is in the test suite. Rows are causes and errors, columns points of a run; an empty cell cannot happen.

A cell has the exit status and what the history looks like (a letter, below), and the code where it is not the row's. What
ended the run is in the journal with the same exit status; each call has exactly one answer, or is pending. Points that do
not exist yet (compaction) have no column.
"""
SHORT = {
    "before a turn": "turn",
    "connecting": "connect",
    "between chunks": "chunks",
    "tool not begun": "plan",
    "final answer": "final",
    "first byte": "first",
    "mid-text": "text",
    "mid-call": "call",
}
POINT_TEXTS = {
    "before a turn": "the results of a turn are saved, the next model call has not begun",
    "limiter": "waiting for the rate limit",
    "connecting": "there is no connection yet",
    "headers": "the request is out, the answer has not begun",
    "first byte": "the head is there, the body has not begun",
    "mid-text": "in the middle of an event with text",
    "mid-call": "a tool call has begun to come",
    "between chunks": "some text came, and a keep-alive comment",
    "retry": "waiting for the next attempt",
    "approval": "waiting for whoever approves the call",
    "tool not begun": "the tool plans the call; nothing of it has begun",
    "slot": "waiting for a tool slot",
    "tool": "an async tool runs",
    "thread": "a sync tool runs in its thread",
    "process": "a tool waits for a process",
    "MCP": "an MCP server of its own process does the call",
    "saving": "the reply and the marker of its call are being written",
    "final answer": "the end of the run is being written",
}


def letters() -> dict[str, str]:
    return {history: chr(ord("a") + number) for number, history in enumerate(HISTORIES)}


def faults_page() -> str:
    """The whole page."""
    cells = sum(len(row.cells) for row in ROWS)
    lines = [OPENING_TEXT, f"{len(ROWS)} rows, {cells} cells, and {len(OPENING)} commands that cannot begin.", ""]
    lines += ["| point | |", "|---|---|", *(f"| {SHORT.get(point, point)} | {POINT_TEXTS[point]} |" for point in POINTS), ""]
    lines += ["| history | |", "|---|---|"]
    lines += [f"| {letter} | {HISTORIES[history]} |" for history, letter in letters().items()]
    lines += ["", *table(), "", "## Commands that cannot begin", ""]
    lines += ["| error | command | exit status | says |", "|---|---|---|---|"]
    lines += [f"| {each.of.__name__} | `heaveto {' '.join(each.args)}` | {each.status} | {each.says} |" for each in OPENING]
    return "\n".join(lines) + "\n"


def table() -> list[str]:
    head = ["", "code", *(SHORT.get(point, point) for point in POINTS)]
    rows = [f"| {' | '.join([row.name, usual_code(row), *row_cells(row)])} |" for row in ROWS]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *rows]


def usual_code(row: Row) -> str:
    codes = [result.code for _, result in row.cells.values()]
    return max(codes, key=codes.count)


def row_cells(row: Row) -> Iterator[str]:
    usual, names = usual_code(row), letters()
    for point in POINTS:
        if point not in row.cells:
            yield ""
            continue
        result = row.cells[point][1]
        text = f"{result.exit_status} {names[result.history]}"
        yield text if result.code == usual else f"{text} {result.code}"


def check(row: Row, point: str, backend: Backend) -> str | None:
    """Run a cell; what is wrong with it, None when nothing is."""
    fault, expected = row.cells[point]
    try:
        came: Result | str = run_cell(point, fault, backend)
    except Exception as error:
        came = f"{type(error).__name__}: {error}"
    return None if came == expected else f"{row.name}, {point}, {backend}: {came}; want {expected}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--write", action="store_true", help=f"write {PAGE.name} anew")
    options.add_argument("--row", default="", help="only rows whose name begins so")
    chosen = options.parse_args()
    if chosen.write:
        PAGE.write_text(faults_page(), "utf-8")
    began = time.monotonic()
    rows = [row for row in ROWS if row.name.startswith(chosen.row)]
    backends: tuple[Backend, ...] = ("asyncio", "trio")
    left_out = "" if importlib.util.find_spec("mcp") else "MCP"
    cells = [(row, point) for row in rows for point in row.cells if point != left_out]
    wrong = [check(row, point, backend) for backend in backends for row, point in cells]
    wrong += [] if chosen.row else [run_opening(each) for each in OPENING]
    print("\n".join(table()))
    problems = [each for each in wrong if each is not None]
    for problem in problems:
        print(f"wrong: {problem}")
    few = f", fewer than {LEAST_ROWS} rows" if not chosen.row and len(rows) < LEAST_ROWS else ""
    verdict = f"{len(problems)} wrong" if problems else "all right"
    seconds = time.monotonic() - began
    print(f"faults: {len(rows)} rows, {len(cells)} cells, {len(wrong)} runs in {seconds:.0f} s, {verdict}{few}")
    if left_out:
        print("left out: no mcp")
    return 1 if problems or few or (left_out and os.environ.get("CI")) else 0


if __name__ == "__main__":
    raise SystemExit(main())
