"""`heaveto resolve`: a person's word on a call whose outcome nobody knows."""

from __future__ import annotations

from typing import Any, Literal

import click

from .options import HELP
from .showing import reading

__all__ = ["resolve_command", "who"]


@click.command("resolve", context_settings=HELP)
@click.argument("run_id", metavar="RUN")
@click.argument("call_id", metavar="CALL")
@click.option("--done", "verdict", flag_value="done", help="It took effect; --evidence is its result for the model.")
@click.option("--not-done", "verdict", flag_value="again", help="It did not; it is run again at the resume.")
@click.option("--abandon", "verdict", flag_value="told", help="Nobody can tell; the model is told so.")
@click.option("--evidence", metavar="TEXT", default="", help="What you saw; it is kept in the journal.")
def resolve_command(run_id: str, call_id: str, verdict: str | None, evidence: str) -> None:
    """Tell what became of a call whose outcome is not known. Then `heaveto resume RUN` goes on."""
    from .texts import resume_step

    if verdict is None:
        raise click.UsageError("say what became of the call: --done, --not-done or --abandon")

    async def resolve(store: Any) -> tuple[str, bool]:
        from ..runs import resolve_call

        found = await resolve_call(store, run_id, call_id, _verdict(verdict), evidence, who())
        return found, await begun_here(store, found)

    found, ours = reading(resolve)
    click.echo(f"resolved; resume: {resume_step(found, ours=ours)}")


async def begun_here(store: Any, run_id: str) -> bool:
    """Whether the command began the run, and not a program."""
    from ..runs import read_state
    from .texts import was_begun_here

    return was_begun_here((await read_state(store, await store.find(run_id))).started)


def _verdict(flag: str) -> Literal["done", "again", "told"]:
    return "done" if flag == "done" else "again" if flag == "again" else "told"


def who() -> str:
    """The person at the terminal, as the system knows them; empty when it does not."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no such user, as in a container
        return ""
