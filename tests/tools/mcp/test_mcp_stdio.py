"""Servers over stdio: real processes, with the real clock."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from heaveto.causes import Cancelled, ConnectTimeout, ToolTimeout
from heaveto.errors import BadArguments, OutcomeUnknown, ToolError, ToolFatal, find
from heaveto.scopes import Scope, deadline, tasks
from heaveto.testing.clocks import Backend
from heaveto.testing.stops import every_await
from heaveto.tools import Call, Tool
from heaveto.tools.mcp import McpServers, Question, ServerConfig, StdioServer, open_servers
from heaveto.tools.mcp.config import ServerOptions

pytest.importorskip("mcp", reason="no mcp")
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="no subreaper")]

RAW = Path(__file__).with_name("raw_server.py")
SILENT = "while read line; do :; done"  # to the end of its input


def raw(
    folder: Path, *, delay: float = 0, connect_seconds: float = 30, trust: bool = False, env: dict[str, str] | None = None
) -> StdioServer:
    options = ServerOptions(connect_seconds=connect_seconds, trust_hints=trust)
    args = ("-I", str(RAW), str(folder / "log"), str(delay))
    return StdioServer(command=sys.executable, args=args, options=options, env=env or {})


def opened(folder: Path, config: ServerConfig | None = None) -> AbstractAsyncContextManager[McpServers]:
    return open_servers({"raw": config or raw(folder)}, folder=folder)


def tool(servers: McpServers, name: str) -> Tool:
    return next(each for each in servers.tools if each.name == f"raw__{name}")


async def call(servers: McpServers, name: str, progress: Callable[[str], None] = lambda _: None, **arguments: Any) -> str:
    chosen = tool(servers, name)
    return await chosen.run(Call(call_id="c1", tool=chosen.name, progress=progress), chosen.parse(json.dumps(arguments)))


def log_of(folder: Path) -> list[str]:
    return (folder / "log").read_text().splitlines()


def messages(folder: Path, method: str) -> list[dict[str, Any]]:
    received = [json.loads(line) for line in log_of(folder) if line.startswith("{")]
    return [each for each in received if each.get("method") == method]


def pids(folder: Path) -> list[int]:
    return [int(line.split()[1]) for line in log_of(folder) if line.startswith("pid ")]


def living(folder: Path) -> list[int]:
    return [pid for pid in pids(folder) if is_alive(pid)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.01)


async def test_a_servers_tools_are_tools_of_ours(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        echo = tool(servers, "echo")
        assert (echo.description, echo.effect, echo.alone) == ("The tool echo.", "write", True)
        assert echo.schema["required"] == ["text"]
        assert await call(servers, "echo", text="hä?") == "hä?"
        assert (await call(servers, "picture")) == '[image, image/png, 3 bytes: not shown]\n{"a":1}'
    assert living(tmp_path) == []


async def test_hints_count_where_the_user_trusts_the_server(tmp_path: Path) -> None:
    async with opened(tmp_path, raw(tmp_path, trust=True)) as servers:
        assert [tool(servers, name).effect for name in ("look", "set", "echo")] == ["read", "idempotent", "write"]
        assert not tool(servers, "look").alone


async def test_wrong_arguments_are_refused_before_the_server_sees_them(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        with pytest.raises(BadArguments, match='missing field "text"; unknown field "txt"; the fields are text'):
            await call(servers, "echo", txt="a")
    assert messages(tmp_path, "tools/call") == []


async def test_an_error_is_read_by_the_model(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        with pytest.raises(ToolError, match=r"^no such note$"):
            await call(servers, "fail")
        with pytest.raises(ToolError, match="raw__refuse: that will not do"):
            await call(servers, "refuse")
        assert await call(servers, "echo", text="still there") == "still there"


ODD_TEXT = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"TEXT"}]}}'
ODD_ANSWER = '{"jsonrpc":"2.0","id":ID,WHAT}'


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (r"cut: \ud83d", "cut: \ufffd"),  # JSON.stringify of half an emoji
        (r"whole: \ud83d\ude00", "whole: \U0001f600"),
        (r"\udc00\ud800", "\ufffd\ufffd"),
        ("caf\xe9", "caf\ufffd"),  # latin-1
    ],
)
async def test_a_result_that_is_no_text_is_read_all_the_same(tmp_path: Path, said: str, read: str) -> None:
    async with opened(tmp_path) as servers:
        with anyio.fail_after(10):
            assert await call(servers, "odd", line=ODD_TEXT.replace("TEXT", said)) == read


@pytest.mark.parametrize(
    ("what", "read"),
    [
        ('"result":null', "cannot be read"),
        ('"result":[1]', "cannot be read"),
        ('"error":"oops"', "cannot be read"),
        ('"error":{"code":-32000,"message":"no such page"}', "raw__odd: no such page"),
        ('"error":{"code":-32000,"message":"half \\ud83d"}', "raw__odd: half \ufffd"),
    ],
)
async def test_an_odd_answer_is_one(tmp_path: Path, what: str, read: str) -> None:
    """The call neither waits for another, nor is the connection taken for lost."""
    async with opened(tmp_path) as servers:
        with anyio.fail_after(10), pytest.raises(ToolError, match=read):
            await call(servers, "odd", line=ODD_ANSWER.replace("WHAT", what))
        assert await call(servers, "echo", text="still there") == "still there"
    assert len(pids(tmp_path)) == 1


async def test_a_long_error_is_cut_in_the_middle(tmp_path: Path) -> None:
    long = '"error":{"code":1,"message":"' + "x" * 200_000 + '"}'
    async with opened(tmp_path) as servers:
        with pytest.raises(ToolError, match="characters left out") as caught:
            await call(servers, "odd", line=ODD_ANSWER.replace("WHAT", long))
    assert len(str(caught.value)) < 51_000


async def test_a_line_without_end_in_a_call_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heaveto.tools.mcp.streams.MAX_LINE_BYTES", 100_000)
    async with opened(tmp_path) as servers:
        with pytest.raises(OutcomeUnknown, match="was lost: it sent a line of more than 100,000 bytes"):
            await call(servers, "flood")
        assert await call(servers, "echo", text="a new one") == "a new one"


async def test_progress_is_shown(tmp_path: Path) -> None:
    shown: list[str] = []
    async with opened(tmp_path) as servers:
        assert await call(servers, "progress", shown.append) == "done"
        await until(lambda: shown == ["1 of 2", "2 of 2"])


@pytest.mark.parametrize(("fields", "answered"), [({"sure": True}, "accept"), (None, "decline")])
async def test_a_question_in_a_call_goes_to_whoever_answers(tmp_path: Path, fields: Any, answered: str) -> None:
    asked: list[Question] = []

    async def elicit(question: Question) -> Any:
        asked.append(question)
        return fields

    async with open_servers({"raw": raw(tmp_path)}, folder=tmp_path, elicit=elicit) as servers:
        said = json.loads(await call(servers, "ask"))
    assert (said["action"], said.get("content")) == (answered, fields)
    assert [(each.server, each.message) for each in asked] == [("raw", "Really?")]


async def test_where_nobody_answers_a_server_is_told_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        assert "not supported" in await call(servers, "ask")
    (hello,) = messages(tmp_path, "initialize")
    assert "elicitation" not in hello["params"]["capabilities"]


async def test_what_a_server_prints_besides_disturbs_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        assert await call(servers, "stray") == "printed"
        assert await call(servers, "echo", text="on") == "on"


async def test_a_long_result_is_cut_in_the_middle(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        text = await call(servers, "flood")
    assert len(text) < 51_000
    assert "of 3000000 characters left out" in text


async def test_a_stop_reaches_the_server_with_its_cause(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        with Scope(quiet=True) as scope:
            async with tasks() as group:
                group.start_soon(call, servers, "wait")
                await until(lambda: bool(messages(tmp_path, "tools/call")))
                scope.cancel(Cancelled("changed my mind", "operator"))
        await until(lambda: bool(messages(tmp_path, "notifications/cancelled")))
        (told,) = messages(tmp_path, "notifications/cancelled")
        (asked,) = messages(tmp_path, "tools/call")
        assert told["params"] == {"requestId": asked["id"], "reason": "cancelled by operator: changed my mind"}
        assert await call(servers, "echo", text="next run") == "next run"
        assert len(pids(tmp_path)) == 1, "the connection is not the first user's"


async def test_a_time_limit_reaches_the_server_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        with pytest.raises(ToolTimeout), deadline(0.2, ToolTimeout(0.2)):
            await call(servers, "wait")
        await until(lambda: bool(messages(tmp_path, "notifications/cancelled")))
    assert "timed out after 0.2 s" in messages(tmp_path, "notifications/cancelled")[0]["params"]["reason"]


async def test_stopping_the_run_that_connected_again_leaves_the_next_unharmed(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        os.kill(pids(tmp_path)[0], signal.SIGKILL)
        await until(lambda: not living(tmp_path))
        with Scope(quiet=True) as first:
            assert await call(servers, "echo", text="a") == "a"
            first.cancel(Cancelled("the first run is over"))
            await anyio.sleep(0)
        assert await call(servers, "echo", text="b") == "b"
        assert len(pids(tmp_path)) == 2


async def test_a_server_that_dies_in_a_call_leaves_its_outcome_unknown(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        with pytest.raises(OutcomeUnknown) as caught:
            await call(servers, "crash")
    assert caught.value.call_id == "c1"
    assert caught.value.why == "MCP server raw was lost: it exited with status 3; it said: about to crash"


async def test_in_a_call_that_changes_nothing_it_is_fatal(tmp_path: Path) -> None:
    async with opened(tmp_path, raw(tmp_path, trust=True)) as servers:
        look: Any = tool(servers, "look")
        look._offered.name = "crash"
        with pytest.raises(ToolFatal, match="MCP server raw: it exited with status 3"):
            await call(servers, "look")


async def test_after_each_of_five_kills_the_next_call_has_a_new_server_and_only_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        for round_ in range(5):
            assert living(tmp_path) == pids(tmp_path)[-1:]
            assert len(pids(tmp_path)) == round_ + 1
            os.kill(pids(tmp_path)[-1], signal.SIGKILL)
            await until(lambda: not living(tmp_path))
            assert await call(servers, "echo", text=str(round_)) == str(round_)
        assert len(living(tmp_path)) == 1
    assert living(tmp_path) == []


async def test_a_server_that_is_slow_to_begin_is_given_up_by_name(tmp_path: Path) -> None:
    with pytest.raises(ToolFatal) as caught:
        async with opened(tmp_path, raw(tmp_path, delay=60, connect_seconds=0.5)):
            pass
    assert "MCP server raw: connecting timed out after 0.5 s (connectSeconds of the MCP server raw)" in str(caught.value)
    assert find(caught.value, ConnectTimeout) is not None
    assert living(tmp_path) == []


async def test_one_that_ends_when_it_is_given_up_is_told_of_by_the_limit(tmp_path: Path) -> None:
    silent = StdioServer(command="sh", args=("-c", SILENT), options=ServerOptions(connect_seconds=0.3))
    with pytest.raises(ToolFatal, match=r"connecting timed out after 0\.3 s"):
        async with opened(tmp_path, silent):
            pass


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (StdioServer(command="no-such-program"), "cannot run no-such-program: no such program"),
        (StdioServer(command=sys.executable, cwd="nowhere"), "nowhere: no such file or directory"),
        (StdioServer(command="sh", args=("-c", "echo oops >&2; exit 7")), "it exited with status 7; it said: oops"),
        (StdioServer(command="sh", args=("-c", "echo hello")), "its output was not the protocol's: hello"),
    ],
)
async def test_a_server_that_cannot_begin_says_why(tmp_path: Path, config: StdioServer, text: str) -> None:
    with pytest.raises(ToolFatal) as caught:
        async with opened(tmp_path, config):
            pass
    assert text in str(caught.value)


async def test_a_server_that_ends_at_the_question_for_the_newest_protocol_is_met_in_the_old_way(tmp_path: Path) -> None:
    """And from then on at once, after a kill too; never two of it at once."""
    async with opened(tmp_path, raw(tmp_path, env={"OLD": "1"})) as servers:
        assert await call(servers, "echo", text="a") == "a"
        _, second = pids(tmp_path)
        assert living(tmp_path) == [second]
        os.kill(second, signal.SIGKILL)
        await until(lambda: not living(tmp_path))
        assert await call(servers, "echo", text="b") == "b"
        assert len(living(tmp_path)) == 1
    assert len(pids(tmp_path)) == 3
    assert [len(messages(tmp_path, method)) for method in ("server/discover", "initialize")] == [1, 2]


async def test_a_server_that_never_begins_is_tried_twice_and_no_more(tmp_path: Path) -> None:
    server = StdioServer(command="sh", args=("-c", "echo x >> tries; echo oops >&2; exit 7"))
    with pytest.raises(ToolFatal, match="it exited with status 7; it said: oops"):
        async with opened(tmp_path, server):
            pass
    assert (tmp_path / "tries").read_text().split() == ["x", "x"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_both_ways_to_connect_have_one_limit(tmp_path: Path) -> None:
    """A second and a half are gone at the first end, and then half a second is left."""
    program = f"if [ -e once ]; then {SILENT}; exit; fi; touch once; sleep 1.5; exit 7"
    options = ServerOptions(connect_seconds=2)
    began = anyio.current_time()
    with pytest.raises(ToolFatal, match="connecting timed out after 2 s"):
        async with opened(tmp_path, StdioServer(command="sh", args=("-c", program), options=options)):
            pass
    assert anyio.current_time() - began < 3.4, "the second way had two seconds of its own"


async def test_a_server_sees_of_the_environment_what_its_configuration_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-secret")
    program = f"env > {tmp_path}/environment; exec {sys.executable} {RAW} {tmp_path}/log"
    async with opened(tmp_path, StdioServer(command="sh", args=("-c", program), env={"NOTES": "here"})):
        pass
    seen = (tmp_path / "environment").read_text()
    assert "NOTES=here" in seen
    assert "sk-secret" not in seen


async def test_a_kill_of_our_process_leaves_no_server(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import anyio, os, signal, sys
from heaveto.tools.mcp import StdioServer, open_servers
async def main():
    async with open_servers({{"raw": StdioServer(command=sys.executable, args=("-I", {str(RAW)!r}, "log"))}}):
        os.kill(os.getpid(), signal.SIGKILL)
anyio.run(main, backend="asyncio")
"""
    )
    done = await anyio.run_process([sys.executable, str(program)], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    await until(lambda: not living(tmp_path))
    assert len(pids(tmp_path)) == 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        wholly = metafunc.config.getoption("--stop-points") is not None
        metafunc.parametrize(("backend", "wholly"), [("asyncio", True), ("trio", True)] if wholly else [("asyncio", False)])


def test_a_stop_anywhere_leaves_no_process(backend: Backend, wholly: bool, tmp_path: Path) -> None:
    """At each await of opening and closing; with `--stop-points` of a call too, and on both back ends."""

    async def whole() -> None:
        (tmp_path / "log").unlink(missing_ok=True)
        async with opened(tmp_path) as servers:
            if wholly:
                await call(servers, "echo", text="a")

    for run in every_await(whole, ways=("cancel",), again_after=(), backends=(backend,)):
        assert run.left_running == (), run
        assert run.error is None or isinstance(run.error, Cancelled), run
        assert not (tmp_path / "log").exists() or living(tmp_path) == [], run


async def test_a_server_that_changes_its_tools_has_that_told_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        texts = [await call(servers, "grow")]
        while "has changed its tools" not in texts[-1]:
            assert len(texts) < 500, texts[-1]
            await anyio.sleep(0.01)  # the list comes anew beside the calls
            texts.append(await call(servers, "look"))
        told = "MCP server raw has changed its tools (new: new_one; gone: ask)"
        assert texts[-1].partition("\n")[2] == f"({told}; in this run they stay as they were until it is resumed)"
        assert await call(servers, "look") == "seen"
    assert len(messages(tmp_path, "tools/list")) == 2
