"""The MCP servers of a run, and the user's trust in those that a project brings.

A cloned repository is not the user: a file from the project's own folder may have a program started only after the user
has trusted that very content.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, ToolFatal
from ..runs import Signals
from ..scopes import Scope
from ..tools import Tool
from .trust import Trusted, in_project

if TYPE_CHECKING:
    from ..tools.mcp import Elicit

__all__ = ["read_entries", "run_servers"]


@asynccontextmanager
async def run_servers(
    config_file: str | None, folder: Path, signals: Signals, elicit: Elicit | None = None
) -> AsyncIterator[list[Tool]]:
    """A block in which the servers of an `mcpServers` file are open: their tools. None without a file.

    A signal while they start stops that. `elicit` answers their questions.

    Raises:
        ConfigError: The file is wrong or not trusted, or a server does not start.
    """
    if config_file is None:
        yield []
        return
    from ..tools.mcp import open_servers, parse_servers

    path = Path(config_file)
    data = _read(path)
    servers = parse_servers(data, where=str(path))
    _check_trust(path, {name: data["mcpServers"][name] for name in servers}, folder)
    with Scope() as starting:
        signals.hand_to(starting.cancel)  # until the run is there, which takes them over
        is_open = False
        try:
            async with open_servers(servers, folder=folder, approval=True, elicit=elicit) as opened:
                is_open = True
                yield opened.tools
        except ToolFatal as error:
            if is_open:
                raise
            raise ConfigError(str(error), f"see {path}") from error


def read_entries(path: Path) -> dict[str, Any]:
    """The servers of a file as they are written, by name, without those that are disabled.

    Raises:
        ConfigError: It is no such file.
    """
    from ..tools.mcp import parse_servers

    data = _read(path)
    return {name: data["mcpServers"][name] for name in parse_servers(data, where=str(path))}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {(error.strerror or str(error)).lower()}", "give a file that exists with --mcp-config"
        ) from error
    except ValueError as error:  # no JSON, or no UTF-8
        raise ConfigError(
            f"{path} is no JSON: {error}", 'it looks like {"mcpServers": {"name": {"command": "program"}}}'
        ) from error


def _check_trust(path: Path, entries: dict[str, Any], folder: Path) -> None:
    """Refuse what the project brought and the user has not seen.

    Raises:
        ConfigError: With the words how to trust it.
    """
    if not in_project(path, folder):
        return
    trusted = Trusted.read()
    new = [name for name, entry in entries.items() if not trusted.has(name, entry, folder)]
    if new:
        raise ConfigError(
            f"{path} comes from the project, and you have not trusted what it starts: {', '.join(new)}",
            f"look at it, then: heaveto trust {path}",
        )
