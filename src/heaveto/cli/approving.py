"""`heaveto approve` and `heaveto deny`: a person's word on a call that waits for it."""

from __future__ import annotations

from typing import Any, Literal

import click

from .options import HELP
from .resolving import who
from .showing import reading
from .stores import command_line

__all__ = ["approve_command", "deny_command"]


@click.command("approve", context_settings=HELP)
@click.argument("run_id", metavar="RUN")
@click.argument("call_id", metavar="CALL")
@click.option("--arguments", metavar="JSON", help="Run it with these arguments instead.")
@click.option("--expect", metavar="HASH", help="Refuse unless this is the call's hash (a beginning of it), as you saw it.")
@click.option("--resume", is_flag=True, help="Get the run under way again at once.")
def approve_command(run_id: str, call_id: str, arguments: str | None, expect: str | None, resume: bool) -> int:
    """Allow a call that waits for it, with exactly the arguments that it has. It runs when the run is resumed."""
    return _say(run_id, call_id, "approved", resume, arguments=arguments, expect=expect)


@click.command("deny", context_settings=HELP)
@click.argument("run_id", metavar="RUN")
@click.argument("call_id", metavar="CALL")
@click.option("--why", metavar="TEXT", default="", help="The reason; the model reads it.")
@click.option("--resume", is_flag=True, help="Get the run under way again at once.")
def deny_command(run_id: str, call_id: str, why: str, resume: bool) -> int:
    """Refuse a call that waits to be allowed. The model reads that when the run is resumed."""
    return _say(run_id, call_id, "denied", resume, why=why)


def _say(run_id: str, call_id: str, verdict: Literal["approved", "denied"], resume: bool, **more: Any) -> int:
    from .driving import drive_again
    from .texts import call_line

    async def say(store: Any) -> Any:
        from ..runs import approve_call

        return await approve_call(store, run_id, call_id, verdict, who=who(), **more)

    found, entry = reading(say)
    click.echo(f"{verdict}: {call_line(entry.call.name, entry.call.arguments)}", err=resume)
    if resume:
        return drive_again({}, found, None)
    click.echo(f"resume: {command_line('resume', found)}")
    return 0
