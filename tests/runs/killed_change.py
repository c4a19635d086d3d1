"""A run, or an undo of it, that kills itself with signal 9 in the middle of a file's change.

    python tests/runs/killed_change.py STORE FOLDER ACT [TOOL ARGUMENTS]

It is killed when a temporary file is there, right after the function that made it returns.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import anyio

from heaveto.journal import open_store
from heaveto.runs import Agent, undo_run
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import file_tools

MADE_BY = ("write_temp", "move_file")


def kill_when_made(frame: FrameType, event: str, _: object) -> None:
    code = frame.f_code
    if event == "return" and code.co_name in MADE_BY and code.co_filename.endswith("replacing.py"):
        os.kill(os.getpid(), signal.SIGKILL)


async def main(store_path: str, folder: str, act: str, *call: str) -> None:
    store = open_store(Path(store_path))
    threading.setprofile(kill_when_made)
    if act == "undo":
        await undo_run(store, "run")
    else:
        tool, arguments = call
        agent = Agent(model=scripted(calls((tool, arguments)), "done"), tools=file_tools(), store=store, folder=folder)
        await agent.run("go", run_id="run")


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
