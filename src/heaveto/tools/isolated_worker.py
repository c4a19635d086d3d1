"""A script that runs one call of a tool in a process of its own; the job comes on its standard input.

The job is one line of JSON; its arguments are pickled by us, for us. What happens is told on what was standard output, one
JSON object a line: `{"progress": text}`, `{"secret": text}`, and in the end `{"ok": text}` or `{"error": kind, "type": ...,
"text": ..., "traceback": ...}`. What the function prints goes to standard error, and so do the processes that it starts.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import os
import pickle
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

MAIN = "__main__"
KIND_OF = {"ToolError": "tool_error", "ToolFatal": "fatal", "OutcomeUnknown": "unknown"}


class Channel:
    """What was standard output; only ours, and what the function starts does not inherit it."""

    def __init__(self) -> None:
        self._descriptor = os.dup(1)
        os.dup2(2, 1)

    def tell(self, **event: str) -> None:
        line = json.dumps(event).encode() + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]


def main() -> None:
    channel = Channel()
    job = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = job["path"]  # also instead of this script's own folder, whose modules have everybody's names
    try:
        channel.tell(ok=_run(job, channel))
    except BaseException as error:  # heaveto: allow swallowed-stop it is told, and the process ends
        channel.tell(**_described(error))


def _run(job: dict[str, Any], channel: Channel) -> str:
    function = find(job["module"], job["file"], job["function"])
    arguments = pickle.loads(base64.b64decode(job["arguments"]))  # noqa: S301 - from our own parent
    if name := job["injected"]:
        arguments[name] = _call(job["call"], channel)
    value = function(**arguments)
    if inspect.isawaitable(value):
        import anyio

        async def wait() -> Any:
            return await value

        value = anyio.run(wait)
    from heaveto.tools.results import to_text

    return to_text(value)


def find(module: str, file: str, name: str) -> Any:
    """The function, and not the tool that a decorator made of it."""
    if module == MAIN:
        found: Any = runpy.run_path(file, run_name="__mp_main__")[name.partition(".")[0]]
    else:
        found = getattr(importlib.import_module(module), name.partition(".")[0])
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return inspect.unwrap(found)


def _call(values: dict[str, Any], channel: Channel) -> Any:
    from heaveto.tools.protocol import Call

    folder = Path(values.pop("folder"))
    return Call(
        **values,
        folder=folder,
        progress=lambda text: channel.tell(progress=str(text)),
        keep_secret=lambda text: channel.tell(secret=text),
    )


def _described(error: BaseException) -> dict[str, str]:
    names = [each.__name__ for each in type(error).__mro__ if each.__module__ == "heaveto.errors"]
    kind = next((KIND_OF[name] for name in names if name in KIND_OF), "crashed")
    lines = "".join(traceback.format_exception(error)[-8:])
    own = {"fatal": "problem", "unknown": "why"}.get(kind, "")  # without the tool's name, which our parent adds
    text = str(getattr(error, own, error))
    return {"error": kind, "type": type(error).__name__, "text": text, "traceback": lines}


if __name__ == "__main__":
    main()
