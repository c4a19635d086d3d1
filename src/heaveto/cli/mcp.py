"""`heaveto mcp`: our tools for other agents."""

from __future__ import annotations

from pathlib import Path

import anyio
import click

from .options import HELP

__all__ = ["mcp_command"]


@click.command("mcp", context_settings=HELP)
@click.option(
    "-C", "--folder", metavar="DIR", type=click.Path(exists=True, file_okay=False), default=".", help="The folder."
)
@click.option("--test-command", metavar="COMMAND", help="What run_tests runs, instead of pytest or unittest.")
@click.option("--test-python", metavar="PATH", help="The interpreter that run_tests uses.")
def mcp_command(folder: str, test_command: str | None, test_python: str | None) -> int:
    """Offer the file tools and run_tests of a folder as an MCP server, over standard input and output.

    No path leads out of the folder, and tests run in a sandbox without network, where there is one. Ends when its input
    does, and on a signal; tests that are under way end with it.
    """
    from ..causes import Stop
    from ..loop.outcome import exit_status_of
    from ..runs import Signals
    from ..scopes import Scope
    from ..tools import file_tools, find_sandbox, run_tests_tool
    from ..tools.mcp.serving import serve_tools

    tools = [*file_tools(), run_tests_tool(test_command, test_python, sandbox=find_sandbox())]

    async def serve(signals: Signals) -> None:
        with Scope() as serving:
            signals.hand_to(serving.cancel)
            await serve_tools(tools, Path(folder).resolve())  # noqa: ASYNC240 - before anything else runs

    try:
        with Signals() as signals:
            anyio.run(serve, signals)
    except Stop as stop:
        return exit_status_of(stop)
    return 0
