"""The question at a terminal: what is shown, what an answer does, and that a stop does not wait for one."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no /proc: as the other tests of signals")


class Terminal:
    """The person's side of a pseudo-terminal."""

    def __init__(self, primary: int, process: subprocess.Popen[bytes]) -> None:
        self._primary, self.process, self.shown = primary, process, ""

    def until(self, text: str, seconds: float = 60.0) -> None:
        """Read until that is shown."""
        until = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < until, self.shown
            self._read(0.1)

    def type(self, text: str) -> None:
        os.write(self._primary, text.encode())

    def end(self) -> int:
        """Read to the end; the exit status."""
        while self.process.poll() is None:
            self._read(0.1)
        while self._read(0.0):
            pass
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        if not select.select([self._primary], [], [], seconds)[0]:
            return False
        try:
            chunk = os.read(self._primary, 65536)
        except OSError:  # EIO: nobody has the other side open
            return False
        self.shown += chunk.decode(errors="replace")
        return bool(chunk)


@contextmanager
def asking(heaveto: Any, project: Path) -> Iterator[Terminal]:
    """A run at a terminal whose first call that may change something asks."""
    primary, secondary = os.openpty()
    command = [sys.executable, "-m", "heaveto", "run", "-m", "offline", "-C", project, "--permission", "ask", "fix it"]
    with subprocess.Popen(
        command, stdin=secondary, stdout=secondary, stderr=secondary, env=heaveto.environment, start_new_session=True
    ) as process:
        os.close(secondary)
        try:
            terminal = Terminal(primary, process)
            terminal.until("allow this? [y/N, or why not]")
            yield terminal
        finally:
            process.kill()
            os.close(primary)


def test_yes_lets_it_run(heaveto: Any, project: Path) -> None:
    with asking(heaveto, project) as terminal:
        for _ in range(20):
            terminal.shown = ""
            terminal.type("y\n")
            while "allow this?" not in terminal.shown and terminal.process.poll() is None:
                terminal._read(0.1)
            if terminal.process.poll() is not None:
                break
        assert terminal.end() == 0, terminal.shown
    assert "return a + b" in (project / "calc.py").read_text()


def test_a_reason_denies_and_the_model_reads_it(heaveto: Any, project: Path) -> None:
    with asking(heaveto, project) as terminal:
        assert "run_tests" in terminal.shown or "edit_file" in terminal.shown
        terminal.type("not on a Friday\n")
        terminal.until("was denied: not on a Friday")
        terminal.process.send_signal(signal.SIGTERM)
        terminal.end()
    assert "return a - b" in (project / "calc.py").read_text()


def test_a_stop_does_not_wait_for_the_answer(heaveto: Any, project: Path) -> None:
    with asking(heaveto, project) as terminal:
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130, terminal.shown
        assert "allow this?" in terminal.shown
    assert "return a - b" in (project / "calc.py").read_text()
