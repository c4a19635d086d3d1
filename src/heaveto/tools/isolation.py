"""A tool's function in a process of its own, which can be killed with all that it started.

The function is found there by its module and name, as `pickle` would, so it must be importable. It sees a scrubbed
environment. What it returns comes back as the text that the model reads, never as an object.
"""

from __future__ import annotations

import base64
import inspect
import json
import math
import pickle
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from ..errors import ConfigError, OutcomeUnknown, ToolCrashed, ToolError, ToolFatal
from .isolated_worker import MAIN
from .processes import ProcessResult, child_environment, run_process
from .project_tests.reports import end_text
from .protocol import Call, Effect
from .results import cut_middle
from .sandbox import no_sandbox

__all__ = ["check_importable", "run_isolated"]

WORKER = Path(__file__).with_name("isolated_worker.py")
MAX_LINE_BYTES = 2_000_000  # a result is at most 50,000 characters, each of which JSON may write as twelve
MAX_OUTPUT_BYTES = 20_000  # of what the function prints; only told when it dies


def check_importable(name: str, function: Callable[..., Any]) -> None:
    """Refuse a function that another process could not find.

    Raises:
        ConfigError: When it was made inside a function, or belongs to an object.
    """
    qualname = getattr(function, "__qualname__", "<")
    if "<" in qualname or inspect.ismethod(function) or not hasattr(function, "__code__"):
        raise ConfigError(
            f"tool {name} cannot run isolated: another process could not import {qualname}",
            "define it with def at the top of a module",
        )


async def run_isolated(
    function: Callable[..., Any], injected: str | None, call: Call, arguments: Mapping[str, Any], effect: Effect
) -> str:
    """Run one call in a worker process, kept in the call's sandbox. On a stop it and all that it started are ended.

    Raises:
        ToolError: The function's own, or that it crashed.
        ToolFatal: The function's own.
        OutcomeUnknown: The function's own; or the process died and may have changed something.
    """
    told = _Told(call)
    box = call.sandbox or no_sandbox()
    with box.keeping([sys.executable, str(WORKER)], call.folder, call.folder, readable=_libraries()) as (argv, extra):
        result = await run_process(
            argv,
            folder=call.folder,
            env={**child_environment(), **extra},
            max_bytes=MAX_OUTPUT_BYTES,
            on_output=told.feed,
            stdin=_job(function, injected, call, arguments),
        )
    return told.conclude(result, effect)


def _libraries() -> list[Path]:
    """The folders that the worker imports from."""
    return [Path(each).resolve() for each in (sys.prefix, sys.base_prefix, str(WORKER.parent), *sys.path)]


def _job(function: Callable[..., Any], injected: str | None, call: Call, arguments: Mapping[str, Any]) -> bytes:
    try:
        pickled = pickle.dumps(dict(arguments))
    except Exception as error:  # boundary: whatever a value's own pickling raises
        raise ToolError(f"the arguments cannot be handed to another process: {error}") from error
    values = {"run_id": call.run_id, "turn": call.turn, "call_id": call.call_id, "tool": call.tool, "key": call.key}
    job = {
        "path": [str(Path(each).resolve()) for each in sys.path],
        "module": function.__module__,
        "file": getattr(sys.modules.get(MAIN), "__file__", None) or "",
        "function": function.__qualname__,
        "injected": injected or "",
        "arguments": base64.b64encode(pickled).decode(),
        "call": {**values, "folder": str(call.folder), "facts": dict(call.facts), **_until(call)},
    }
    return json.dumps(job).encode() + b"\n"


def _until(call: Call) -> dict[str, float]:
    left = call.time_left()
    return {} if left == math.inf else {"until": time.monotonic() + left}


class _Told:
    """What the worker told so far."""

    def __init__(self, call: Call) -> None:
        self._call, self._rest = call, b""
        self._end: dict[str, str] | None = None

    def feed(self, stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        if stream == "stderr":
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[-MAX_LINE_BYTES:]
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:  # somebody else found the descriptor
            return
        if not isinstance(event, dict):
            return
        if "progress" in event:
            self._call.progress(str(event["progress"]))
        elif "secret" in event:
            self._call.keep_secret(str(event["secret"]))
        elif self._end is None:
            self._end = event

    def conclude(self, result: ProcessResult, effect: Effect) -> str:
        name, end = self._call.tool, self._end
        if end is None:
            return self._died(result, effect)
        if "ok" in end:
            return str(end["ok"])
        text = str(end.get("text", ""))
        match end.get("error"):
            case "tool_error":
                raise ToolError(text)
            case "fatal":
                raise ToolFatal(name, text)
            case "unknown":
                raise OutcomeUnknown(name, self._call.call_id, text)
        crashed = ToolCrashed(name, str(end.get("type", "Exception")), text)
        crashed.add_note(str(end.get("traceback", "")))
        raise crashed

    def _died(self, result: ProcessResult, effect: Effect) -> str:
        said = cut_middle(result.stderr.strip(), 2_000)
        why = f"its process ended ({end_text(result)})"
        if effect == "write":
            raise OutcomeUnknown(self._call.tool, self._call.call_id, why)
        crashed = ToolCrashed(self._call.tool, "ProcessDied", why)
        crashed.add_note(said)
        raise crashed
