"""Servers that misbehave: each ends the run with its own words and exit status, without a traceback, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Row(NamedTuple):
    behaviour: str
    status: int
    code: str
    requests: int
    words: str
    flags: tuple[str, ...] = ()


ROWS = [
    Row("401", 1, "api_error", 1, "401 Unauthorized: no such key"),
    Row("429", 75, "gave_up", 2, "gave up after 2 attempts: no attempts left: openai: 429 Too Many Requests: slow down"),
    Row("429_for_hours", 75, "gave_up", 1, "10800 s"),
    Row("500", 75, "gave_up", 2, "500 Internal Server Error: something broke"),
    Row("html", 1, "bad_reply", 1, "HTML"),
    Row("cut", 75, "gave_up", 2, "the stream ended before the reply did"),
    Row("silent", 75, "gave_up", 2, "the stream went quiet for 0.3 s (--idle-seconds)", ("--idle-seconds", "0.3")),
    Row("mute", 75, "gave_up", 2, "the stream went quiet for 0.3 s (--idle-seconds)", ("--idle-seconds", "0.3")),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.behaviour)
def test_a_bad_server_ends_the_run_with_its_own_words(heaveto: Any, bad_server: Any, project: Path, row: Row) -> None:
    with bad_server(row.behaviour) as server:
        finished = heaveto(
            "run", "-m", "openai:gpt-test", "--attempts", "2", "-C", str(project), "--json", *row.flags, "fix it",
            OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-test-secret",
        )  # fmt: skip
    end = finished.end
    assert (row.status, row.code, row.requests) == (finished.status, end["cause"]["code"], server.requests), finished
    assert row.words in end["why"]
    assert "\n" not in end["why"]
    assert "Traceback" not in finished.err
    assert "sk-test-secret" not in finished.out + finished.err
    assert end["resumable"]


def test_nothing_is_lost_and_the_run_can_be_taken_up(heaveto: Any, bad_server: Any, project: Path) -> None:
    """What a cut call spent is in the end's figures, and a later server that answers finishes the job."""
    environment = {"OPENAI_API_KEY": "sk-test-secret"}
    with bad_server("cut") as server:
        first = heaveto(
            "run", "-m", "openai:gpt-test", "--attempts", "1", "-C", str(project), "--json", "fix it",
            OPENAI_BASE_URL=server.base_url, **environment,
        )  # fmt: skip
    assert first.end["spend"]["calls"] == 1
    assert first.end["spend"]["estimated_calls"] == 1
    run_id = first.end["run_id"]
    again = heaveto("resume", run_id, "-m", "offline", "--json")
    assert again.status == 0, again
    assert "return a + b" in (project / "calc.py").read_text()
    assert again.end["spend"]["calls"] > 1


def test_text_mode_says_it_in_one_paragraph(heaveto: Any, bad_server: Any, project: Path) -> None:
    with bad_server("401") as server:
        finished = heaveto(
            "run", "-m", "openai:gpt-test", "-C", str(project), "fix it",
            OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-test-secret",
        )  # fmt: skip
    lines = finished.err.strip().splitlines()
    assert finished.status == 1
    assert finished.out == ""
    assert len(lines) == 3
    assert "401 Unauthorized: no such key" in lines[0]
    assert lines[1].startswith("  cost: ")
    assert lines[2].startswith("  resume: heaveto resume ")


def test_a_key_never_reaches_the_journal(heaveto: Any, bad_server: Any, project: Path, tmp_path: Path) -> None:
    with bad_server("401") as server:
        heaveto(
            "run", "-m", "openai:gpt-test", "-C", str(project), "fix it",
            OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-test-secret",
        )  # fmt: skip
    for path in (tmp_path / "state").iterdir():
        assert b"sk-test-secret" not in path.read_bytes()
    shown = heaveto("show", "--json")
    assert "sk-test-secret" not in shown.out
    assert json.loads(shown.out.splitlines()[-1])["type"] == "run.finished"
