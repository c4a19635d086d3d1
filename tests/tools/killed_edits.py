"""Kill -9 at every step of each tool that changes files, and within an undo; prints JSON.

    python tests/tools/killed_edits.py [EVERY]

A child of this process makes one call and is killed by itself at the n-th call or return of a function, Python's and C's
alike, in the modules that touch files, so right before and after each system call; then the next child at the n+1st (or
n+EVERYth). Afterwards the files are as they were or as they were to be, and looking, as a resumed run does, tells which.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import anyio

from heaveto.journal import MemoryStore, Summary
from heaveto.journal.records import UndoneFile, UndoStarted, encode_record
from heaveto.journal.seals import seal
from heaveto.runs import Agent, changes_of, read_records, undo_run
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import Call, Tool, file_tools, recovery_of
from heaveto.tools.files.replacing import TEMP_PREFIX
from heaveto.tools.files.workspace import Workspace

FINISHED = 42
WHERE = ("workspace.py", "together.py", "replacing.py", "locks.py", "openat.py")  # what touches files, and no other step
BEFORE = {"a.txt": "one\r\ntwo\r\n", "sub/b.txt": "bee\n"}


class Case(NamedTuple):
    """A call, and what it does to the files; None: it takes one away."""

    tool: str
    arguments: Mapping[str, Any]
    changes: Mapping[str, str | None]


CASES = [
    Case("edit_file", {"path": "a.txt", "old": "one", "new": "1"}, {"a.txt": "1\r\ntwo\r\n"}),
    Case("write_file", {"path": "a.txt", "content": "new\n"}, {"a.txt": "new\n"}),
    Case("write_file", {"path": "x/y.txt", "content": "new\n"}, {"x/y.txt": "new\n"}),
    Case("move_file", {"path": "a.txt", "to": "x/c.txt"}, {"a.txt": None, "x/c.txt": BEFORE["a.txt"]}),
    Case("delete_file", {"path": "sub/b.txt"}, {"sub/b.txt": None}),
    Case(
        "apply_patch",
        {
            "patch": "*** Begin Patch\n*** Update File: a.txt\n-one\n+1\n*** Add File: x/y.txt\n+new\n"
            "*** Update File: sub/b.txt\n*** Move to: x/c.txt\n*** End Patch"
        },
        {"a.txt": "1\r\ntwo\r\n", "x/y.txt": "new\n", "sub/b.txt": None, "x/c.txt": BEFORE["sub/b.txt"]},
    ),
]


def kill_everywhere(case: Case, tool: Any, every: int) -> dict[str, Any]:
    """Returns how often it was killed, how often the change had been made by then or only half of it, and what was wrong."""
    kills, done, half, wrong = 0, 0, 0, list[str]()
    after = {name: text for name, text in {**BEFORE, **case.changes}.items() if text is not None}
    verdicts = {"not_done": BEFORE, "done": after}
    at, finished = 1, False
    while not finished:
        with tempfile.TemporaryDirectory(prefix="heaveto-killed-") as name:
            folder = Path(name).resolve()
            put_files(folder)
            call = Call(run_id="run", folder=folder)
            call = replace(call, facts=anyio.run(tool.plan, call, case.arguments))
            finished = not killed_at(at, lambda call=call: tool(call, **case.arguments))  # type: ignore[misc]
            files = files_in(folder)
            verdict = anyio.run(tool.check, call, case.arguments).verdict
            if verdict == "unknown" and (undo := recovery_of(tool).undo) is not None:  # some of several: taken back
                anyio.run(undo, call, case.arguments)
                files, verdict, half = files_in(folder), "not_done", half + 1
        if finished and files != after:
            wrong.append(f"it ended, and left {files}")
        if files != verdicts.get(verdict):
            wrong.append(f"killed at step {at}: looking says {verdict}, and there is {files}")
            Workspace(folder, writer="run").remove_leftovers(case.changes)
            if left := sorted(folder.rglob(f"{TEMP_PREFIX}*")):
                wrong.append(f"killed at step {at}: {left} are left, though nobody writes for the run")
        kills, done = kills + (not finished), done + (not finished and files == after)
        at += every
    return {"tool": case.tool, "kills": kills, "done": done, "half": half, "wrong": wrong}


def kill_undo(every: int) -> dict[str, Any]:
    """Undo a run of many changes, killed at every step; the next undo does the rest."""
    kills, done, wrong = 0, 0, list[str]()
    at, finished = 1, False
    with tempfile.TemporaryDirectory(prefix="heaveto-killed-") as name:
        folder = Path(name).resolve()
        put_files(folder)
        begun = anyio.run(_changed_and_about_to_be_undone, folder)
        changed = files_in(folder)
        while not finished:
            put_files(folder, changed)
            finished = not killed_at(at, lambda: anyio.run(_undo, begun), in_threads=True)
            files = files_in(folder)
            anyio.run(_undo, begun)
            if files_in(folder) != BEFORE or ((folder / "x").exists() and not os.listdir(folder / "x")):
                wrong.append(f"killed at step {at}: the second undo left {files_in(folder)}")
            if left := sorted(folder.rglob(f"{TEMP_PREFIX}*")):
                wrong.append(f"killed at step {at}: the second undo left {left}")
            kills, done = kills + (not finished), done + (not finished and files == BEFORE)
            at += every
    return {"tool": "undo", "kills": kills, "done": done, "wrong": wrong}


async def _changed_and_about_to_be_undone(folder: Path) -> list[bytes]:
    """A run that makes every change there is, and its journal with the marker of an undo at its end."""
    store, cases = MemoryStore(), [CASES[0], *CASES[2:5]]
    model = scripted(*(calls((case.tool, dict(case.arguments))) for case in cases), "done")
    await Agent(model=model, tools=file_tools(), store=store, folder=folder).run("go", run_id="run")
    records = await read_records(store, "run")
    files = changes_of(records).files
    marker = UndoStarted(files=tuple(UndoneFile(path=each.path, before=each.before, after=each.after) for each in files))
    return seal([encode_record(record) for record in (*records, marker)], b"")


async def _undo(begun: list[bytes]) -> None:
    store = MemoryStore()
    await store.create("run", "", begun, Summary())
    await undo_run(store, "run")


def put_files(folder: Path, files: Mapping[str, str] = BEFORE) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text.encode())


def files_in(folder: Path) -> dict[str, str]:
    """What people see in it: temporary files are removed by a later write."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(TEMP_PREFIX)]
    return {str(path.relative_to(folder)): path.read_bytes().decode() for path in paths}


def killed_at(step: int, act: Callable[[], object], *, in_threads: bool = False) -> bool:
    """Run it in a child that kills itself at that step; whether it was killed before its end.

    Args:
        in_threads: Whether the steps are those of the threads that it starts, where its files are changed.
    """
    if (child := os.fork()) == 0:
        left = step

        def count(frame: FrameType, *_: object) -> None:
            nonlocal left
            left -= frame.f_code.co_filename.endswith(WHERE)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            (threading if in_threads else sys).setprofile(count)
            act()
            sys.setprofile(None)
            os._exit(FINISHED)
        finally:
            os._exit(1)  # an error must not go up into the parent's code
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (FINISHED, -signal.SIGKILL):
        raise SystemExit(f"the call ended with status {status}")
    return status == -signal.SIGKILL


def main(every: int) -> list[dict[str, Any]]:
    tools: dict[str, Tool] = {each.name: each for each in file_tools()}
    longer = every if every < 20 else 3 * every  # a sample: a patch and an undo have many more steps
    killed = [kill_everywhere(case, tools[case.tool], longer if len(case.changes) > 2 else every) for case in CASES]
    return [*killed, kill_undo(longer)]


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)))
