"""The command, and agents, on a journal in Postgres."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

pytest.importorskip("psycopg", reason="no psycopg")

from heaveto.causes import Cancelled
from heaveto.cli.commands import run_and_leave
from heaveto.journal import open_store
from heaveto.loop import Outcome
from heaveto.runs import Agent, stop_run
from heaveto.scopes import tasks
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def heaveto(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs the command in this process; its exit status and all that it says."""
    monkeypatch.setenv("HEAVETO_STATE", str(tmp_path / "state"))

    def run(*args: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            run_and_leave(list(args))
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out + said.err

    return run


@tool(effect="read")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


def begin(address: str, run_id: str) -> None:
    agent = Agent(model=scripted(calls(("look", {"what": "a"})), "seen"), tools=[look], store=address)

    async def whole() -> str:
        return (await agent.run("look at a", run_id=run_id)).text

    assert anyio.run(whole) == "seen"


def test_every_command_about_runs(heaveto: Command, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named by --store or by HEAVETO_STORE; nothing is written to the state folder."""
    begin(address, "first")
    status, said = heaveto("runs", "--store", address)
    assert (status, said.split()[0], "answered" in said, "2 turns" in said) == (0, "first", True, True)
    monkeypatch.setenv("HEAVETO_STORE", address)
    assert heaveto("verify")[1].endswith(" records: whole\n")
    assert heaveto("replay", "first")[1].endswith("all as written\n")
    assert "saw a" in heaveto("show", "first")[1]
    assert heaveto("why", "fir")[0] == 0
    assert "nobody drives run first" in heaveto("stop", "first")[1]
    assert heaveto("fork", "first", "--turn", "1")[0] == 0
    lines = heaveto("export", "first")[1]
    (tmp_path / "runs.jsonl").write_text(lines)
    assert heaveto("delete", "first") == (0, "deleted first\n")
    assert heaveto("show", "first")[0] == 2
    assert heaveto("import", str(tmp_path / "runs.jsonl")) == (0, "imported first\n")
    assert heaveto("export", "first")[1].count("\n") == lines.count("\n")
    assert heaveto("doctor")[1].count("2 runs in postgresql://[") == 1
    status, said = heaveto("prune", "--older-than", "0s")
    assert (status, said.startswith("deleted 2 runs")) == (0, True)
    assert heaveto("runs")[1].startswith("no runs yet")
    assert not (tmp_path / "state").exists()


def test_a_run_moves_from_a_file_to_a_database(heaveto: Command, address: str, tmp_path: Path) -> None:
    """Byte for byte, and is gone on with there."""
    begin(str(tmp_path / "journal.db"), "moved")
    lines = heaveto("export", "--store", str(tmp_path / "journal.db"))[1]
    (tmp_path / "runs.jsonl").write_text(lines)
    assert heaveto("import", "--store", address, str(tmp_path / "runs.jsonl"))[0] == 0
    agent = Agent(model=scripted("still there"), tools=[look], store=address)

    async def resume() -> str:
        return (await agent.resume("moved", say="and now?")).text

    assert anyio.run(resume) == "still there"
    assert heaveto("verify", "moved", "--store", address)[0] == 0


@pytest.mark.anyio
async def test_a_run_is_stopped_from_another_store(address: str) -> None:
    """As from another machine, with the cause."""
    agent, elsewhere = Agent(model=scripted("never", pause_seconds=60), store=address), open_store(address)
    outcomes: list[Outcome] = []
    async with agent.start("wait", run_id="run") as run, tasks() as group:

        async def wait() -> None:
            outcomes.append(await run.wait())

        group.start_soon(wait)
        assert await stop_run(elsewhere, "run", Cancelled("lunch is ready", "ada")) == "run"
    (outcome,) = outcomes
    assert (outcome.kind, str(outcome.cause)) == ("stopped", "cancelled by ada: lunch is ready")
    assert await stop_run(elsewhere, "run") is None
    await elsewhere.aclose()
