"""A process that has loaded the whole command, and forks itself for each call of it: loading is most of a short one's cost.

    python warm_command.py SOCKET

Reads one line of JSON a call (arguments, folder, environment, where the streams go) from the socket that it was given, and
answers with two: the process's number, and its exit status.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import socket
import sys
from typing import Any

import heaveto

LEFT_OUT = (
    "heaveto.__main__",
    "heaveto.testing",
    "heaveto.tools.mcp",
    "heaveto.tools.isolated_worker",
    "heaveto.models.aiohttp_exchange",
)
OTHERS = ("httpx2", "pydantic", "sqlite3", "anyio._backends._asyncio")


def load(package: Any) -> None:
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not found.name.startswith(LEFT_OUT):
            module = importlib.import_module(found.name)
            if found.ispkg:
                load(module)


def begin(call: dict[str, Any]) -> list[str]:
    """Become the process that is asked for; its arguments."""
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["environment"])
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in enumerate((nowhere, *(os.open(call[name], os.O_WRONLY) for name in ("out", "err")))):
        os.dup2(source, descriptor)
        os.close(source)
    sys.argv = ["heaveto", *call["args"]]
    return list(call["args"])


def serve(connection: socket.socket) -> list[str]:
    """Fork for each call; returns in the forked process alone, with its arguments."""
    with connection, connection.makefile("rw") as lines:
        for line in lines:
            if (pid := os.fork()) == 0:
                call = json.loads(line)
                break
            for answer in (pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])):
                lines.write(f"{answer}\n")
                lines.flush()
        else:
            sys.exit()
    return begin(call)


if __name__ == "__main__":
    load(heaveto)
    for other in OTHERS:
        importlib.import_module(other)
    from heaveto.cli import main

    main(serve(socket.socket(fileno=int(sys.argv[1]))))
