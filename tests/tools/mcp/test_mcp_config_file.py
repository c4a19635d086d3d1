"""The `mcpServers` file: what is understood, and where exactly a mistake is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heaveto.errors import ConfigError
from heaveto.tools.mcp import HttpServer, StdioServer, parse_servers, read_servers
from heaveto.tools.mcp.config import ServerOptions

HOME = {"HOME": "/home/me", "TOKEN": "t0k", "EMPTY": ""}


def parse(**servers: Any) -> Any:
    return parse_servers({"mcpServers": servers}, HOME, where="mcp.json")


def test_a_usual_file_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        """{"mcpServers": {
        "notes": {"type": "stdio", "command": "notes", "args": ["--dir", "${HOME}/notes"], "env": {"KEY": "${TOKEN}"},
                  "alwaysAllow": ["read"], "timeout": 60},
        "wiki": {"type": "http", "url": "https://x.test/mcp", "headers": {"Authorization": "Bearer ${NONE:-nobody}"}},
        "old": {"command": "old", "disabled": true},
        "mine": {"command": "m", "cwd": "sub", "heaveto": {"connectSeconds": 5, "callSeconds": 7.5, "trustHints": true,
                 "approval": false}}}}"""
    )
    assert read_servers(file, HOME) == {
        "notes": StdioServer(command="notes", args=("--dir", "/home/me/notes"), env={"KEY": "t0k"}),
        "wiki": HttpServer(url="https://x.test/mcp", headers={"Authorization": "Bearer nobody"}),
        "mine": StdioServer(
            command="m",
            cwd="sub",
            options=ServerOptions(connect_seconds=5, call_seconds=7.5, trust_hints=True, approval=False),
        ),
    }


def test_a_default_stands_in_for_what_is_not_set_or_empty() -> None:
    servers = parse(x={"command": "${TOKEN:-a}${EMPTY:-b}${NONE:-c}${NONE:-}${EMPTY}"})
    assert servers["x"].command == "t0kbc"


WRONG = {
    "no object": ([], "$: got an array, want an object"),
    "no servers": ({}, "$: has no mcpServers"),
    "a text": ({"mcpServers": {"x": "npx"}}, "$.mcpServers.x: got a string, want an object"),
    "neither": ({"mcpServers": {"x": {}}}, "$.mcpServers.x: want either a command or a url"),
    "both": ({"mcpServers": {"x": {"command": "a", "url": "http://b"}}}, "$.mcpServers.x: want either"),
    "a near miss": ({"mcpServers": {"x": {"command": "a", "arg": []}}}, '.x.arg: unknown field; did you mean "args"?'),
    "an argument": ({"mcpServers": {"x": {"command": "a", "args": ["b", 3]}}}, ".x.args[1]: got an integer, want a string"),
    "arguments": ({"mcpServers": {"x": {"command": "a", "args": "b"}}}, ".x.args: got a string, want an array of strings"),
    "a variable": (
        {"mcpServers": {"x": {"command": "a", "env": {"K": "${NONE}"}}}},
        "$.mcpServers.x.env.K: the variable NONE is not set; set it, or write ${NONE:-default}",
    ),
    "an open variable": ({"mcpServers": {"x": {"command": "${HOME"}}}, "is no variable; write ${NAME} or ${NAME:-default}"),
    "no program": ({"mcpServers": {"x": {"command": ""}}}, "$.mcpServers.x.command: is empty"),
    "an address": ({"mcpServers": {"x": {"url": "x.test"}}}, "'x.test' is no address; it begins with https://"),
    "sse": ({"mcpServers": {"x": {"url": "http://x", "type": "sse"}}}, "the old SSE transport is not supported"),
    "a name": ({"mcpServers": {"a b": {"command": "x"}}}, '"a b" is no name for a server'),
    "seconds": (
        {"mcpServers": {"x": {"command": "a", "heaveto": {"callSeconds": 0}}}},
        "$.mcpServers.x.heaveto.callSeconds: got 0, want a number of seconds above 0",
    ),
    "yes or no": (
        {"mcpServers": {"x": {"command": "a", "heaveto": {"trustHints": 1}}}},
        "got an integer, want true or false",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_told_with_its_place(name: str) -> None:
    data, says = WRONG[name]
    with pytest.raises(ConfigError) as caught:
        parse_servers(data, HOME, where="mcp.json")
    assert says in str(caught.value)
    assert str(caught.value).startswith("mcp.json: $")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)
ENTRY = st.dictionaries(
    st.sampled_from(["command", "args", "env", "cwd", "url", "headers", "type", "disabled", "heaveto", "timeout"]), JSON
)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["a", "b"]), ENTRY | JSON))
def test_anything_else_is_a_configuration_error(servers: Any) -> None:
    try:
        parsed = parse_servers({"mcpServers": servers}, HOME)
    except ConfigError:
        return
    assert set(parsed) <= set(servers)
