"""Who drives a run, and whether that process is alive: with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from heaveto.journal.owner import describe, holds, is_alive, this_process

FIELDS = ("host", "boot", "name_space", "pid", "started", "use")


def changed(owner: str, **fields: str) -> str:
    return "/".join(fields.get(name, value) for name, value in zip(FIELDS, owner.split("/"), strict=True))


def test_this_process_is_alive() -> None:
    assert is_alive(this_process()) is True


def test_each_use_has_an_owner_of_its_own() -> None:
    assert this_process() != this_process()


@pytest.mark.parametrize(
    ("field", "value", "alive"),
    [
        ("host", "elsewhere", None),
        ("boot", "an-earlier-one", False),
        ("name_space", "another-container", None),
        ("started", "1", False),  # the id was given to another process since
        ("pid", "4194305", False),  # above the highest that Linux gives
    ],
)
def test_what_each_field_tells(field: str, value: str, alive: bool | None) -> None:
    assert is_alive(changed(this_process(), **{field: value})) is alive


def test_a_killed_process_is_dead_before_anybody_waited_for_it() -> None:
    code = "from heaveto.journal.owner import this_process; print(this_process(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        assert is_alive(owner) is True
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie from here on
        assert is_alive(owner) is False
    assert is_alive(owner) is False


def test_without_proc_the_id_alone_decides() -> None:
    """As on macOS, where an owner has no start."""
    assert is_alive(changed(this_process(), started="")) is True
    assert is_alive(changed(this_process(), started="", pid="4194305")) is False


@pytest.mark.parametrize("owner", ["somebody", "a/b/c/not-a-number/e/f", "a/b", "/////"])
def test_another_programs_owner_is_unknown(owner: str) -> None:
    assert is_alive(owner) is None
    assert describe(owner) == owner


def test_an_owner_in_words() -> None:
    assert describe("ship/boot/1/4711/99/aa") == "process 4711 on host ship"
    assert describe("") == "nobody"


@pytest.mark.parametrize(
    ("owner", "quiet_seconds", "held"),
    [("", 0, False), ("unknown", 59, True), ("unknown", 61, False)],
)
def test_the_lease_counts_where_nobody_can_look(owner: str, quiet_seconds: float, held: bool) -> None:
    assert holds(owner, 1000.0, 1000.0 + quiet_seconds) is held


def test_a_living_process_needs_no_lease() -> None:
    assert holds(this_process(), 0.0, 1e9)
