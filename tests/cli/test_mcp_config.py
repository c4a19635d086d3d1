"""`--mcp-config` and `heaveto trust`: what a project brings is started only after the user has seen it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="no mcp")

RAW = Path(__file__).parents[1] / "tools" / "mcp" / "raw_server.py"


def write_config(path: Path, script: str, log: Path, **more: Any) -> Path:
    server = {"command": sys.executable, "args": ["-I", script, str(log)], **more}
    path.write_text(json.dumps({"mcpServers": {"raw": server}}))
    return path


def run(heaveto: Any, project: Path, config: Path, model: str = "offline", turns: str = "0") -> Any:
    return heaveto(
        "run", "-m", model, "--json", "--max-turns", turns, "--mcp-config", str(config), "fix it", cwd=project
    )  # fmt: skip


def is_trusted(heaveto: Any, project: Path, config: Path) -> bool:
    """Whether the servers are started: then the run begins, and may take no turn."""
    done = run(heaveto, project, config)
    assert ("you have not trusted" in done.err) == (done.status == 2), done
    return bool(done.status == 3)


def test_a_file_of_the_users_own_is_used_and_its_servers_end_with_the_run(
    heaveto: Any, project: Path, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "mine.json", str(RAW), tmp_path / "log")
    done = run(heaveto, project, config, turns="1")
    assert (done.status, done.end["turns"]) == (3, 1), done
    (pid,) = [int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("pid ")]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_file_of_the_projects_starts_nothing_before_it_is_trusted_and_only_as_it_was_then(
    heaveto: Any, project: Path, tmp_path: Path
) -> None:
    log, script = tmp_path / "log", project / "server.py"
    script.write_text(RAW.read_text())
    config = write_config(project / ".mcp.json", "server.py", log)
    refused = run(heaveto, project, config)
    assert refused.status == 2
    assert f"you have not trusted what it starts: raw; look at it, then: heaveto trust {config}" in refused.err
    assert not log.exists()

    asked = heaveto("trust", str(config), cwd=project)
    assert asked.status == 130, "nobody is there to answer"
    trusted = heaveto("trust", "--yes", str(config), cwd=project)
    assert trusted.status == 0, trusted
    assert "server.py" in trusted.out
    assert is_trusted(heaveto, project, config)
    assert log.exists()

    script.write_text(RAW.read_text() + "# changed\n")
    assert not is_trusted(heaveto, project, config)
    script.write_text(RAW.read_text())
    write_config(config, "server.py", log, env={"LD_PRELOAD": "./evil.so"})
    assert not is_trusted(heaveto, project, config)


def test_a_model_that_is_none_is_refused_before_a_server_starts(heaveto: Any, project: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path / "mine.json", str(RAW), tmp_path / "log")
    done = run(heaveto, project, config, model="nobody:x")
    assert (done.status, "no provider named" in done.err) == (2, True), done
    assert not (tmp_path / "log").exists()


def test_a_link_does_not_make_a_projects_file_the_users(heaveto: Any, project: Path, tmp_path: Path) -> None:
    write_config(project / "hidden.json", str(RAW), tmp_path / "log")
    link = tmp_path / "link.json"
    link.symlink_to(project / "hidden.json")
    assert not is_trusted(heaveto, project, link)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"mcpServers": {"x": {"comand": "y"}}}', '$.mcpServers.x.comand: unknown field; did you mean "command"?'),
        ('{"mcpServers": {"x": {"command": "no-such-program"}}}', "MCP server x: cannot run no-such-program"),
    ],
)
def test_what_is_wrong_is_told_before_the_run_begins(
    heaveto: Any, project: Path, tmp_path: Path, text: str, says: str
) -> None:
    config = tmp_path / "mine.json"
    config.write_text(text)
    done = run(heaveto, project, config)
    assert (done.status, done.out) == (2, "")
    assert says in done.err
