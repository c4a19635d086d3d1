"""Tools of MCP servers, and our tools as one: needs `pip install "heaveto[mcp]"`.

`config.py` the `mcpServers` file; `process.py` and `http.py` the two ways to a server; `link.py` one live connection with
one owner; `tools.py` a server's tool as ours; `results.py` what came back; `servers.py` all of them in a block;
`serving.py` the other side. The SDK is imported when a server is opened.
"""

from .config import HttpServer, ServerConfig, ServerOptions, StdioServer, parse_servers, read_servers
from .questions import Elicit, Question
from .servers import McpServers, open_servers

__all__ = [
    "Elicit",
    "HttpServer",
    "McpServers",
    "Question",
    "ServerConfig",
    "ServerOptions",
    "StdioServer",
    "open_servers",
    "parse_servers",
    "read_servers",
]
