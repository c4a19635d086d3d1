"""`heaveto approve` and `heaveto deny`: a person's word on a call that waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from .options import HELP
from .resolving import begun_here, who
from .showing import reading

if TYPE_CHECKING:
    from ..tools import Tool

__all__ = ["approve_command", "deny_command"]


@click.command("approve", context_settings=HELP)
@click.argument("run_id", metavar="RUN")
@click.argument("call_id", metavar="CALL")
@click.option("--arguments", metavar="JSON", help="Run it with these arguments instead, which have to fit the tool.")
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


def _say(
    run_id: str,
    call_id: str,
    verdict: Literal["approved", "denied"],
    resume: bool,
    *,
    arguments: str | None = None,
    **more: Any,
) -> int:
    from .driving import drive_again
    from .texts import call_line, resume_step

    tools: list[Tool] = []
    ours = True

    async def say(store: Any) -> Any:
        nonlocal ours
        from ..errors import ConfigError
        from ..runs import approve_call

        ours = await begun_here(store, run_id)
        if resume and not ours:  # its call would be answered with the word that there is no such tool
            raise ConfigError(
                f"run {run_id} was begun by a program, whose tools this command does not have; nothing was {verdict}",
                f'leave --resume out, and resume the run there: agent.resume("{run_id}")',
            )
        if arguments is not None:
            tools.extend(await _known_tools(store, run_id))
        return await approve_call(store, run_id, call_id, verdict, who=who(), arguments=arguments, tools=tools, **more)

    found, entry = reading(say)
    click.echo(f"{verdict}: {call_line(entry.call.name, entry.call.arguments)}", err=resume)
    if arguments is not None and all(tool.name != entry.call.name for tool in tools):
        click.echo(
            f"{entry.call.name} is no tool of this command's: the arguments are checked when the run goes on", err=True
        )
    if resume:
        return drive_again({}, found, None)
    click.echo(f"resume: {resume_step(found, ours=ours)}")
    return 0


async def _known_tools(store: Any, run_id: str) -> list[Tool]:
    """The command's own tools, for a run that it started; a program's tools may have the same names."""
    from ..runs import read_state
    from .driving import built_in_tools
    from .options import Settings
    from .texts import was_begun_here

    started = (await read_state(store, await store.find(run_id))).started
    if not was_begun_here(started):
        return []
    return built_in_tools(Settings.from_flags({}, {"model": started.model, **started.settings}))
