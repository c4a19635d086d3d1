"""Tools for the tests of isolation: another process imports them from here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import anyio
from pydantic import SecretStr

from heaveto.errors import OutcomeUnknown, ToolError, ToolFatal
from heaveto.tools import Call, tool


@dataclass
class Point:
    x: int
    y: int


@tool(effect="read", isolate=True)
def add(point: Point, more: list[int]) -> dict[str, int]:
    """Add."""
    print("this is not the result")
    subprocess.run([sys.executable, "-c", "print('nor is this')"], check=True)
    return {"sum": point.x + point.y + sum(more), "pid": os.getpid()}


@tool(effect="read", isolate=True)
async def wait(call: Call, seconds: float) -> str:
    """Wait."""
    call.progress("waiting")
    await anyio.sleep(seconds)
    return f"{call.call_id} in {call.folder.name}"


@tool(effect="read", isolate=True)
def sign(call: Call, password: SecretStr) -> str:
    """Sign."""
    call.keep_secret("a token of its own")
    return f"{password.get_secret_value()}: a token of its own"


@tool(effect="read", isolate=True)
def keys() -> list[str]:
    """Names of the environment."""
    return sorted(os.environ)


@tool(effect="write", isolate=True)
def fail(how: str) -> str:
    """Fail."""
    if how == "kill":
        os.kill(os.getpid(), 9)
    errors = {
        "tool": ToolError("try 7"),
        "fatal": ToolFatal("fail", "no server"),
        "unknown": OutcomeUnknown("fail", "x", "who knows"),
        "bug": ValueError("boom"),
    }
    raise errors[how]


@tool(effect="read", isolate=True)
def hang(pids: str) -> str:
    """Start a child that ignores SIGTERM, and hang."""
    child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"])
    Path(pids).write_text(f"{os.getpid()} {child.pid}")
    while True:
        time.sleep(600)


class Bag:
    @tool(effect="read", isolate=True)
    def look(self) -> str:
        """Look."""
        return "nothing"


@tool(effect="read", isolate=True)
def note(pids: str) -> str:
    """Write down who runs this."""
    with Path(pids).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return "noted"


@tool(effect="read", isolate=True)
def left(call: Call) -> float:
    """Tell the time left."""
    return call.time_left()


@tool(effect="read", isolate=True)
def writes(paths: list[str]) -> dict[str, bool]:
    """Try to write to files."""
    return {path: _can_write(path) for path in paths}


def _can_write(path: str) -> bool:
    try:
        with open(path, "w") as file:
            file.write("x")
    except OSError:
        return False
    return True
