"""An MCP server with one tool, for `tools.py`."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("bench")


@server.tool()
def count(text: str) -> int:
    """Count the characters of a text."""
    return len(text)


server.run()
