"""Tools that hang, escape, leak and lie, and what comes of it. A goal that is missed is exit 1.

Each line is a figure and its goal. Real time, real processes, real files in a temporary folder. `hostile.py 7` kills changes
at every seventh step only, on a busy machine.
"""

# ruff: noqa: E501 - the paths are a table

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from heaveto.causes import Cancelled
from heaveto.errors import ToolError
from heaveto.journal import MemoryStore
from heaveto.runs import Agent, Permissions
from heaveto.scopes import Scope, abandoned_threads
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import Call, file_tools, run_command_tool, tool

TREE = """
echo $$ >> pids
sleep 60 & echo $! >> pids
setsid sh -c 'echo $$ >> pids; exec sleep 60' &
(setsid sh -c 'echo $$ >> pids; exec sleep 60' & )
for n in 1 2 3; do (trap "" TERM HUP; nohup setsid sh -c 'echo $$ >> pids; sleep 60; :' >/dev/null 2>&1 & ) ; done
while [ $(wc -l < pids) -lt 7 ]; do sleep 0.01; done
wait
"""
PROGRAM = """
import sys, anyio
from pathlib import Path
from heaveto.runs import main
from heaveto.tools import Call, run_command_tool
async def run():
    await run_command_tool().run(Call(folder=Path(sys.argv[1])), {"command": sys.argv[2]})
main(run)
"""
WRITER = """
import sys, anyio
from pathlib import Path
from heaveto.errors import ToolError
from heaveto.tools import Call, file_tools
tools, call, me = {each.name: each for each in file_tools()}, Call(folder=Path(sys.argv[1])), sys.argv[2]
async def write():
    for number in range(100):
        while True:
            await tools["read_file"].run(call, {"path": "counters"})
            try:
                await tools["edit_file"].run(call, {"path": "counters", "old": f"{me}: {number}.", "new": f"{me}: {number + 1}."})
            except ToolError as error:
                if "changed" not in str(error):
                    raise
            else:
                break
anyio.run(write)
"""
LINKS = {"out": "..", "root": "/", "etc": "/etc", "proc": "/proc/self/root", "deep": "sub/../../x", "self": "self"}
PATHS = [
    *("..", "../x", "../../etc/passwd", "sub/../../x", "./../x", "a/../../b", "/", "/etc/passwd", "//etc/passwd", "/proc/self/environ"),
    *("/proc/self/root/etc/passwd", "/proc/self/cwd/../x", "/proc/1/root", "/dev/null", "/dev/zero", "/dev/stdin", "/sys/kernel"),
    *("out/x", "out/etc", "root/etc/passwd", "root/proc/self/environ", "etc/passwd", "proc/etc/passwd", "deep", "self", "self/x"),
    *("hard", "fifo", "socket", "sub/out/x", "sub/up", "sub/up/x", "out/../out/x", "root/tmp", "root/dev/zero", "etc/hostname"),
    *("a\0b", "\0", "../\0", "x" * 300, "/".join(["d"] * 3000), "..\\x/../../y", "\ud800", "sub/\udcff/../../z", "~/../x"),
    *("file:///etc/passwd", "...//../x", ".. /../x", "%2e%2e/../x", "．．/../x", "‥/../x", "..;/../x", "SUB/../../x", "./.././x"),
    *(".git/hooks/../../../x", "sub/../../../../../../../../etc/passwd", "..//x", "/../x", "/..", "./..", "sub/..//../x", "out", "root"),
]  # fmt: skip
KILLED_EDITS = Path(__file__).parent.parent / "tests/tools/killed_edits.py"
missed: list[str] = []


def show(what: str, value: object, good: bool, goal: str) -> None:
    print(f"{'ok ' if good else 'BAD'}  {what}: {value} (goal: {goal})", flush=True)
    if not good:
        missed.append(what)


def living(folder: Path) -> int:
    return sum(_alive(int(pid)) for pid in (folder / "pids").read_text().split())


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def tree_is_there(folder: Path) -> bool:
    return (folder / "pids").exists() and len((folder / "pids").read_text().split()) == 7


async def the_tree(folder: Path) -> None:
    command = run_command_tool()
    for how in ("timeout", "cancel"):
        work = folder / how
        work.mkdir()
        with Scope(quiet=True) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(_run_tree, command, work, 2.0 if how == "timeout" else 60.0)
                while how == "cancel" and not tree_is_there(work):
                    await anyio.sleep(0.01)
                if how == "cancel":
                    scope.cancel(Cancelled("enough"))
        show(f"processes of seven alive after a {how}", living(work), living(work) == 0, "0")
    for number in (signal.SIGTERM, signal.SIGKILL):
        work = folder / number.name
        work.mkdir()
        with subprocess.Popen([sys.executable, "-c", PROGRAM, work, TREE], stderr=subprocess.DEVNULL) as program:
            while not tree_is_there(work):
                await anyio.sleep(0.01)
            program.send_signal(number)
            program.wait()
        until = time.monotonic() + 5
        while living(work) and time.monotonic() < until:
            await anyio.sleep(0.01)
        show(f"processes of seven alive after a {number.name} of the program", living(work), living(work) == 0, "0")


async def _run_tree(command: Any, folder: Path, seconds: float) -> None:
    try:
        await command.run(Call(folder=folder), {"command": TREE, "limit_seconds": seconds})
    except ToolError:
        pass


async def the_pipe(folder: Path) -> None:
    began = time.monotonic()
    await run_command_tool().run(Call(folder=folder), {"command": "setsid sleep 60 & exit 0"})
    took = time.monotonic() - began
    show("seconds that a grandchild holding the pipe costs", f"{took:.2f}", took < 6, "at most the drain limit of 5")


async def stubborn_tools(folder: Path) -> None:
    over = threading.Event()

    @tool(effect="read", seconds=0.01, alone=True)
    def hang() -> None:
        """Never look up."""
        over.wait(60)

    @tool(effect="read", seconds=0.1, alone=True)
    async def cling() -> None:
        """Swallow every cancellation."""
        while True:
            try:
                await anyio.sleep(3600)
            except BaseException:
                pass

    for each, times in ((hang, 50), (cling, 1)):
        began = time.monotonic()
        agent = Agent(
            model=scripted(calls(*[(each.name, {})] * times), "on"), store=MemoryStore(), tools=[each], folder=folder
        )
        result = await agent.run("go")
        took = time.monotonic() - began
        if each is hang:
            threads = len(abandoned_threads())
            show("threads left after fifty timeouts of a sync tool", threads, threads <= 8 and len(result.report.abandoned) == threads, "at most 8, all reported")  # fmt: skip
        else:
            show("seconds that a tool which swallows its limit of 0.1 s is waited for", f"{took:.2f}", took < 3, "at most about 1.1")  # fmt: skip
    over.set()


def set_traps(folder: Path) -> None:
    """Links, a hard link and a FIFO in a working folder, and files outside of it with the names that the paths use."""
    (folder / "work/sub").mkdir(parents=True)
    work = folder / "work"
    for name in ("x", "secret", "y", "z", "b"):
        (folder / name).write_text("SECRET")
    for name, target in LINKS.items():
        (work / name).symlink_to(target)
    (work / "sub/up").symlink_to("../..")
    os.link(folder / "secret", work / "hard")
    os.mkfifo(work / "fifo")


async def the_escapes(folder: Path) -> None:
    set_traps(folder)
    work, tools = (folder / "work").resolve(), {each.name: each for each in file_tools()}
    before = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
    bad, tried = [], 0
    for path in PATHS:
        for name, more in (("read_file", {}), ("edit_file", {"old": "SECRET", "new": "PWNED"})):
            tried += 1
            try:
                text = await tools[name].run(Call(folder=work), {"path": path, **more})
            except ToolError as error:
                if not str(error):
                    bad.append(f"{name} {path[:40]!r}: no text")
            except Exception as error:  # boundary: anything else is what we look for
                bad.append(f"{name} {path[:40]!r}: {type(error).__name__}")
            else:
                if name == "edit_file" or ("SECRET" in text and path != "hard") or "root:" in text:
                    bad.append(f"{name} {path[:40]!r} led out")
    after = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
    good = not bad and before == after
    show(f"escapes of {tried} tried on {len(PATHS)} paths", bad or 0, good, "0, each with a clear error")


def ways_to(path: str) -> list[tuple[str, str]]:
    """Calls that would read or change a file, or bring its name or content along."""
    patches = (
        f"*** Update File: {path}\n-THE KEY\n+PWNED",
        f"*** Delete File: {path}",
        f"*** Update File: {path}\n*** Move to: out.txt",
        f"*** Update File: open.txt\n*** Move to: {path}.new",
        f"*** Update File: open.txt\n-open\n+PWNED\n*** Add File: {path}.new\n+PWNED",
    )
    calls_of: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": path}),
        ("edit_file", {"path": path, "old": "THE KEY", "new": "PWNED"}),
        ("write_file", {"path": path, "content": "PWNED"}),
        ("write_file", {"content": "PWNED", "path": f"{path}.new"}),
        ("delete_file", {"path": path}),
        ("move_file", {"path": path, "to": "out.txt"}),
        ("move_file", {"path": "open.txt", "to": f"{path}.new"}),
        ("search_files", {"pattern": "KEY", "path": path}),
        ("search_files", {"pattern": "KEY", "path": os.path.dirname(path) or "."}),
        ("list_files", {"path": os.path.dirname(path) or "."}),
        *(("apply_patch", {"patch": f"*** Begin Patch\n{each}\n*** End Patch"}) for each in patches),
    ]
    written = [(name, json.dumps(arguments)) for name, arguments in calls_of]
    return [
        *written,
        *((name, arguments.replace("PWNED", "PWNED\n\t")) for name, arguments in written if "PWNED" in arguments),
    ]


async def the_rules(folder: Path) -> None:
    """A rule that denies a folder, whatever else is allowed; each call by a run of its own."""
    work = folder.resolve() / "work"
    (work / "secret").mkdir(parents=True)
    (work / "docs").mkdir()
    (work / "secret" / "key.txt").write_text("THE KEY\n")
    (work / "link").symlink_to("secret")
    (work / "docs" / "key.txt").symlink_to("../secret/key.txt")
    spellings = (
        *("secret/key.txt", "./secret/key.txt", "secret//key.txt", "secret/./key.txt", "docs/../secret/key.txt"),
        *(f"{work}/secret/key.txt", "link/key.txt", "docs/key.txt", "link/../secret/key.txt", "SECRET/key.txt"),
    )
    got, tried = [], 0
    permit = Permissions("auto", allow=["*", "*(*)"], deny=["*(secret/*)"])
    for path in spellings:
        for name, arguments in ways_to(path):
            (work / "open.txt").write_text("open\n")
            tried += 1
            agent = Agent(
                model=scripted(calls((name, arguments)), "on"),
                store=MemoryStore(),
                tools=file_tools(),
                folder=work,
                permit=permit,
            )
            text = (await agent.run("go")).report.messages[2].content
            kept = {str(each.relative_to(work)): each.read_text() for each in (work / "secret").iterdir()}
            if (
                kept != {"secret/key.txt": "THE KEY\n"}
                or "THE KEY" in text
                or any(line.endswith("key.txt") for line in text.split("\n") if name == "list_files")
            ):
                got.append(f"{name} {arguments[:60]}")
    show(
        f"calls of {tried} that got past a rule which denies a folder, on {len(spellings)} spellings", got or 0, not got, "0"
    )


async def the_writers(folder: Path) -> None:
    (folder / "counters").write_text("".join(f"{each}: 0.\n" for each in "abcd"))
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, folder, each]) for each in "abcd"]
    statuses = [await anyio.to_thread.run_sync(each.wait) for each in writers]
    kept = sum(int(line.partition(": ")[2].rstrip(".")) for line in (folder / "counters").read_text().splitlines())
    left = sorted(os.listdir(folder))
    good = kept == 400 and not any(statuses) and left == ["counters"]
    show("edits kept of four writers' hundred racing ones each", kept, good, "400, and nothing else in the folder")


async def killed_edits(_: Path) -> None:
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    ended = await anyio.run_process([sys.executable, str(KILLED_EDITS), str(every)], stderr=None)
    cases = json.loads(ended.stdout)
    kills, done = (sum(case[what] for case in cases) for what in ("kills", "done"))
    wrong = [f"{case['tool']}: {each}" for case in cases for each in case["wrong"]]
    half, least = sum(case.get("half", 0) for case in cases), 3000 // every
    good = not wrong and kills > least and 0 < done < kills
    show(f"kills within a change ({kills}) after which a file is neither old nor new, or looking errs", wrong or 0, good, f"0 of at least {least}")  # fmt: skip
    show("of these, kills in the middle of a patch of several files, whose made part was taken back", half, half > 0, "some")


async def hostile_command(folder: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    text = await run_command_tool().run(
        Call(folder=folder),
        {
            "command": "head -c 1000000000 /dev/zero; printf '\\377\\376'; for n in 1 2 3; do sleep 60 & done; exec 1>&- 2>&-; kill -9 $$"
        },
    )
    took, grown = time.monotonic() - began, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    show(
        "MB that a command grew us by which printed a gigabyte",
        f"{grown:.0f}",
        grown < 60 and len(text) < 25_000,
        "under 60",
    )
    show("seconds until it was answered", f"{took:.1f}: {text.splitlines()[0]}", took < 60, "under 60")


async def overhead() -> None:
    @tool(effect="read")
    async def of_a_task() -> str:
        """Nothing."""
        return ""

    @tool(effect="read")
    def of_a_thread() -> str:
        """Nothing."""
        return ""

    async def of_a_process() -> None:
        await run_command_tool().run(Call(folder=Path("/")), {"command": ["true"]})

    cases: list[tuple[str, Callable[[], Awaitable[object]], int]] = [
        ("a task", lambda: of_a_task.run(Call(), {}), 500),
        ("a thread", lambda: of_a_thread.run(Call(), {}), 500),
        ("a process", of_a_process, 5),
    ]
    for what, call, times in cases:
        began = time.perf_counter()
        for _ in range(times):
            await call()
        each = (time.perf_counter() - began) / times * 1e6
        show(f"microseconds of a call in {what} of its own", f"{each:.0f}", True, "told, not judged")


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="heaveto-hostile-") as name:
        folder = Path(name).resolve()
        for number, part in enumerate(
            (the_tree, the_pipe, stubborn_tools, the_escapes, the_rules, the_writers, killed_edits, hostile_command)
        ):
            own = folder / str(number)
            own.mkdir()
            await part(own)
        await overhead()
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    anyio.run(main)
