"""A terminal for a command that behaves otherwise without one, and what it shows as text."""

from __future__ import annotations

import os
import re
import struct

__all__ = ["END_OF_INPUT", "open_terminal", "terminal_text"]

ROWS, COLUMNS = 24, 120
END_OF_INPUT = b"\x04"  # what Ctrl-D sends: a read of a line ends, and says that there is no more

_STEERING = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78cDEMHZ]")


def open_terminal() -> tuple[int, int]:
    """A new terminal: our end and the command's. It echoes nothing, and leaves line feeds as they are."""
    import fcntl
    import termios

    ours, theirs = os.openpty()
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.ONLCR
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    return ours, theirs


def terminal_text(text: str) -> str:
    """What was printed without what steers a terminal; of a line that was written over, its last state."""
    lines = _STEERING.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(_last_state(line) for line in lines)


def _last_state(line: str) -> str:
    return _rub_out(next((part for part in reversed(line.split("\r")) if part), ""))


def _rub_out(line: str) -> str:
    """Backspaces taken as what they do."""
    if "\b" not in line:
        return line
    kept: list[str] = []
    for char in line:
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept)
