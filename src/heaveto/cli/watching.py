"""Showing a run while it goes on: for a person, as JSON lines, or only its end."""

from __future__ import annotations

import json
import math
from typing import Protocol

from ..causes import ClientGone, DeadlinePassed
from ..journal.records import Replied, RunFinished
from ..loop.events import Event, TextPiece
from ..runs import Run
from ..scopes import deadline
from .output import Output, is_terminal
from .texts import closing_lines, event_line, printable

__all__ = ["JsonLines", "OneJson", "Terminal", "View", "show_run", "view_for"]

LEAVE_SECONDS = 5.0  # how long a reader who pauses may hold up the end


class View(Protocol):
    """One way of showing a run. A method may wait for the reader, and raises BrokenPipeError when that one left."""

    async def show(self, event: Event) -> None: ...


class Terminal:
    """Text and tool calls as they come, and three closing lines. The answer goes to standard output, the rest beside it."""

    def __init__(self, *, kept: bool = True) -> None:
        self._out, self._err, self._kept = Output(1), Output(2), kept
        self._live = is_terminal(1)  # in a pipe the answer is written once, when it is whole
        self._in_text = False
        self._told = False  # some text of a reply, which is the answer if it was the last

    async def show(self, event: Event) -> None:
        body = event.body
        if isinstance(body, TextPiece):
            if self._live:
                await self._out.write(printable(body.text))
                self._told = True
                self._in_text = not body.text.endswith("\n")
        elif isinstance(body, RunFinished):
            await self._close(body, event.run_id)
        elif (line := event_line(body)) is not None:
            await self._end_text()
            await self._err.write(f"{line}\n")
        elif isinstance(body, Replied):
            await self._end_text()

    async def _end_text(self) -> None:
        if self._in_text:
            self._in_text = False
            await self._out.write("\n")

    async def _close(self, finished: RunFinished, run_id: str) -> None:
        await self._end_text()
        if finished.outcome == "answered" and not self._told:
            await self._out.write(finished.text if finished.text.endswith("\n") else f"{finished.text}\n")
        await self._err.write("\n".join(["", *closing_lines(finished, run_id, kept=self._kept), ""]))


class JsonLines:
    """One event a line; `run.finished` is the last."""

    def __init__(self) -> None:
        self._out = Output(1)

    async def show(self, event: Event) -> None:
        await self._out.write(f"{json.dumps(event.to_data(), ensure_ascii=True)}\n")


class OneJson:
    """Only the end, as one JSON object."""

    def __init__(self) -> None:
        self._out = Output(1)

    async def show(self, event: Event) -> None:
        if isinstance(event.body, RunFinished):
            await self._out.write(f"{json.dumps(event.to_data(), ensure_ascii=True)}\n")


def view_for(output_format: str, *, kept: bool = True) -> View:
    """The view of an `--output-format`, for a run that is kept in a journal or is not."""
    views: dict[str, type[JsonLines | OneJson]] = {"stream-json": JsonLines, "json": OneJson}
    return Terminal(kept=kept) if output_format == "text" else views[output_format]()


async def show_run(run: Run, view: View) -> None:
    """Show the run to its end. A reader who leaves stops it (`ClientGone`); one who pauses does not hold up its end."""
    try:
        async for event in run.events():
            limit = math.inf if run.outcome is None else LEAVE_SECONDS
            with deadline(limit, DeadlinePassed(limit)):
                await view.show(event)
    except BrokenPipeError:
        run.cancel(ClientGone("reader of standard output"))
    except DeadlinePassed:
        return
