"""The README's programs do what it says, against a scripted model; its claims name commands that exist."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

SCRIPTED = "from heaveto.testing.scripted_model import calls, scripted"


def run(program: str, folder: Path) -> str:
    """Run a program in a process of its own, with its own journal."""
    environment = {"PATH": "/usr/bin:/bin", "HEAVETO_STATE": str(folder / "state")}
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=folder, env=environment, timeout=60
    ).stdout


def test_the_first_program_runs(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("five words are in here")
    model = 'scripted(calls(("word_count", {"path": "README.md"})), lambda sent: list(sent.transcript)[-1].content)'
    program = PROGRAMS[0].replace('openrouter("anthropic/claude-sonnet-4.5")', model)
    program = program.replace("from heaveto.models import openrouter", SCRIPTED)
    assert len(PROGRAMS[0].split("\n\n", 1)[1].strip().splitlines()) <= 10
    assert run(program, tmp_path) == "5\n"


def test_the_handle_stops_and_resumes(tmp_path: Path) -> None:
    frame = f"""
    import anyio, heaveto
    {SCRIPTED}
    @heaveto.tool(effect="read")
    async def look() -> str:
        "Look."
        await anyio.sleep(1)
        return "seen"
    agent = heaveto.Agent(model=scripted(calls(("look", {{}})), "done"), tools=[look])
    async def main():
    """
    program = textwrap.dedent(frame) + textwrap.indent(PROGRAMS[1], "    ") + "    print(result.text)\nanyio.run(main)\n"
    assert run(program, tmp_path) == "cancelled by operator: changed my mind\ndone\n"


@pytest.mark.parametrize("command", sorted(set(re.findall(r"(?:`|^    )make ([a-z-]+)", README, re.MULTILINE))))
def test_every_make_target_that_it_names_exists(command: str) -> None:
    assert re.search(rf"^{command}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_command_that_it_names_exists() -> None:
    from heaveto.cli.commands import _COMMANDS

    named = set(re.findall(r"heaveto (run|resume|runs|show|why|resolve|doctor|demo)\b", README))
    assert named <= set(_COMMANDS)
