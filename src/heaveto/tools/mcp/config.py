"""Which servers there are: the usual `mcpServers` file, and the same in code.

    {"mcpServers": {"notes": {"command": "notes-server", "args": ["--dir", "${HOME}/notes"], "env": {"TOKEN": "${TOKEN}"}},
                    "wiki": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${WIKI_TOKEN:-none}"},
                             "heaveto": {"connectSeconds": 10, "callSeconds": 120, "trustHints": true}}}}

What other programs keep in such files is passed over; a key that is nearly one of ours is a mistake.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ...errors import ConfigError
from ..json_text import type_name

__all__ = ["HttpServer", "ServerConfig", "ServerOptions", "StdioServer", "parse_servers", "read_servers"]

CONNECT_SECONDS = 30.0  # `npx` may have to fetch a package first
CALL_SECONDS = 300.0

_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")  # a part of its tools' names, which have 64
_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_STDIO_KEYS = ("command", "args", "env", "cwd")
_HTTP_KEYS = ("url", "headers")
_COMMON_KEYS = ("type", "disabled", "heaveto")
_OPTION_KEYS = ("connectSeconds", "callSeconds", "trustHints", "approval")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How we deal with a server.

    Attributes:
        connect_seconds: How long it may take until it has told its tools.
        call_seconds: The limit of one call; None for none.
        trust_hints: Whether to believe what it says of its own tools: that one only reads, or is idempotent. Without it
            each call counts as one that may change something.
        approval: Whether a person has to approve each call; None leaves it to whoever opens the servers.
    """

    connect_seconds: float = CONNECT_SECONDS
    call_seconds: float | None = CALL_SECONDS
    trust_hints: bool = False
    approval: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServer:
    """A server that is a program, spoken to over its standard input and output.

    Attributes:
        env: What it sees of the environment besides an allow-list without keys.
        cwd: Its working folder, relative to the one of the tools.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "."
    options: ServerOptions = ServerOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """A server behind an URL, spoken to over streamable HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    options: ServerOptions = ServerOptions()


ServerConfig: TypeAlias = StdioServer | HttpServer


def read_servers(path: Path | str, environment: Mapping[str, str] | None = None) -> dict[str, ServerConfig]:
    """The servers of an `mcpServers` file, by name, with its variables filled in.

    Args:
        environment: Where variables come from; the process's environment by default.

    Raises:
        ConfigError: With the JSON path of what is wrong.
    """
    return parse_servers(_read_json(Path(path)), environment, where=str(path))


def parse_servers(
    data: Any, environment: Mapping[str, str] | None = None, *, where: str = "the MCP configuration"
) -> dict[str, ServerConfig]:
    """The same from data that is decoded already.

    Raises:
        ConfigError: With the JSON path of what is wrong.
    """
    root = _Node(where, "$", data, os.environ if environment is None else environment)
    servers = root.field("mcpServers")
    if servers is None:
        raise root.wrong("has no mcpServers", 'it looks like {"mcpServers": {"name": {"command": "program"}}}')
    named = {name: _server(node) for name, node in servers.items().items() if _check_name(name, node)}
    return {name: server for name, server in named.items() if server is not None}


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:  # no JSON, or no UTF-8
        raise ConfigError(f"{path} is no JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class _Node:
    """A value of the file and where it is."""

    file: str
    path: str
    value: Any
    environment: Mapping[str, str]

    def wrong(self, problem: str, remedy: str = "") -> ConfigError:
        return ConfigError(f"{self.file}: {self.path}: {problem}", remedy)

    def at(self, step: str, value: Any) -> _Node:
        return _Node(self.file, f"{self.path}{step}", value, self.environment)

    def items(self) -> dict[str, _Node]:
        if not isinstance(self.value, dict):
            raise self.wrong(f"got {type_name(self.value)}, want an object")
        return {key: self.at(f".{key}", value) for key, value in self.value.items()}

    def field(self, key: str) -> _Node | None:
        return self.items().get(key)

    def text(self) -> str:
        """The text, with its variables filled in."""
        if not isinstance(self.value, str):
            raise self.wrong(f"got {type_name(self.value)}, want a string")
        if (bad := _VARIABLE.sub("", self.value)).find("${") >= 0:
            raise self.wrong(f"{bad[bad.find('${') :]!r} is no variable", "write ${NAME} or ${NAME:-default}")
        return _VARIABLE.sub(self._variable, self.value)

    def _variable(self, match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        value = self.environment.get(name)
        if not value and default is not None:
            return default
        if value is None:
            raise self.wrong(f"the variable {name} is not set", f"set it, or write ${{{name}:-default}}")
        return value

    def texts(self) -> tuple[str, ...]:
        if not isinstance(self.value, list):
            raise self.wrong(f"got {type_name(self.value)}, want an array of strings")
        return tuple(self.at(f"[{at}]", each).text() for at, each in enumerate(self.value))

    def text_map(self) -> dict[str, str]:
        return {key: node.text() for key, node in self.items().items()}

    def yes_or_no(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong(f"got {type_name(self.value)}, want true or false")
        return self.value

    def seconds(self) -> float:
        right = isinstance(self.value, (int, float)) and not isinstance(self.value, bool)
        if not right or not 0 < self.value < math.inf:
            raise self.wrong(f"got {json.dumps(self.value)}, want a number of seconds above 0")
        return float(self.value)

    def check_keys(self, known: tuple[str, ...]) -> None:
        """Refuse a key that is nearly one that we know, for it would do nothing."""
        for key, node in self.items().items():
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
            if key not in known and near:
                raise node.wrong("unknown field", f'did you mean "{near[0]}"?')


def _check_name(name: str, node: _Node) -> bool:
    if not _NAME.fullmatch(name) or "__" in name:
        raise node.wrong(
            f'"{name}" is no name for a server', "use up to 40 letters, digits, - and single _, since tools carry it"
        )
    return True


def _server(node: _Node) -> ServerConfig | None:
    fields = node.items()
    if "disabled" in fields and fields["disabled"].yes_or_no():
        return None
    node.check_keys((*_STDIO_KEYS, *_HTTP_KEYS, *_COMMON_KEYS))
    if ("command" in fields) == ("url" in fields):
        raise node.wrong("want either a command or a url", 'such as {"command": "program"} or {"url": "https://..."}')
    _check_type(fields.get("type"), "command" in fields)
    options = _options(fields["heaveto"]) if "heaveto" in fields else ServerOptions()
    return _stdio(fields, options) if "command" in fields else _http(fields, options)


def _check_type(node: _Node | None, has_command: bool) -> None:
    right = ("stdio",) if has_command else ("http", "streamable-http", "streamableHttp", "streamable_http")
    if node is None or node.value in right:
        return
    if node.value == "sse":
        raise node.wrong("the old SSE transport is not supported", 'most servers have "http" by now')
    raise node.wrong(f"got {json.dumps(node.value)}, want {json.dumps(right[0])}")


def _stdio(fields: dict[str, _Node], options: ServerOptions) -> StdioServer:
    command = fields["command"].text()
    if not command:
        raise fields["command"].wrong("is empty", "give a program")
    return StdioServer(
        command=command,
        args=_read(fields, "args", _Node.texts, ()),
        env=_read(fields, "env", _Node.text_map, {}),
        cwd=_read(fields, "cwd", _Node.text, "."),
        options=options,
    )


def _http(fields: dict[str, _Node], options: ServerOptions) -> HttpServer:
    url = fields["url"].text()
    if not re.match(r"https?://[^/]", url):
        raise fields["url"].wrong(f"{url!r} is no address", "it begins with https:// or http://")
    return HttpServer(url=url, headers=_read(fields, "headers", _Node.text_map, {}), options=options)


def _options(node: _Node) -> ServerOptions:
    node.check_keys(_OPTION_KEYS)
    fields = node.items()
    return ServerOptions(
        connect_seconds=_read(fields, "connectSeconds", _Node.seconds, CONNECT_SECONDS),
        call_seconds=_read(fields, "callSeconds", _Node.seconds, CALL_SECONDS),
        trust_hints=_read(fields, "trustHints", _Node.yes_or_no, False),
        approval=_read(fields, "approval", _Node.yes_or_no, None),
    )


def _read(fields: dict[str, _Node], key: str, read: Callable[[_Node], Any], default: Any) -> Any:
    return read(fields[key]) if key in fields else default
