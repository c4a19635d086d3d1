"""A person's word on a call that waits for an approval, from elsewhere and perhaps much later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..errors import BadArguments, ConfigError
from ..journal import Store
from ..journal.records import ToolApproved
from ..journal.state import CallEntry, RunState
from ..loop.secrets import Secrets, has_secrets
from ..tools import Tool
from ..tools.json_text import NotArguments, decode_arguments
from .opening import write_word

__all__ = ["approve_call"]

LEAST_EXPECTED = 8  # characters of a hash, fewer of which could fit by chance


async def approve_call(
    store: Store,
    run_id: str,
    call_id: str,
    verdict: Literal["approved", "denied"],
    *,
    why: str = "",
    arguments: str | None = None,
    who: str = "",
    expect: str | None = None,
    tools: Sequence[Tool] = (),
) -> tuple[str, CallEntry]:
    """Allow or refuse a call of a run that nobody drives; returns the run's whole name and the call as it will run.

    The word holds for exactly these arguments. The call runs, or is answered, when the run is resumed.

    Args:
        run_id: The run's name, or the beginning of it.
        why: The reason for a denial; the model reads it.
        arguments: Other arguments to run it with, as a JSON object.
        who: The person.
        expect: The identity of the call that the person saw (`CallEntry.identity`), or the beginning of it: eight or more.
            One that is empty is no such beginning, and refused.
        tools: The run's tools, as far as they are known here. Other arguments for one of them are held against its schema at
            once; for any other tool only when the run is resumed, where the model reads what is wrong with them.

    Raises:
        RunNotFound, RunTaken: It cannot be taken up.
        ConfigError: There is no such call that waits, it is another than the expected one, or the arguments are no JSON
            object, do not fit the tool, or would put something secret into the journal; or what it would run with is secret
            and was not kept.
    """
    if arguments is not None:
        _check_object(arguments)
    seen: list[CallEntry] = []

    def decide(state: RunState) -> ToolApproved:
        entry = _waiting(state, call_id)
        seen.append(entry)
        if expect is not None:
            _check_expected(entry, expect)
        if arguments is not None:
            _check_fit(entry, arguments, tools)
        elif verdict == "approved" and Secrets().are_lost(entry.call):
            raise ConfigError(
                f"call {entry.call.id} has something secret, which was not kept",
                "deny it, and the model may call again; allow such a call while the run is driven",
            )
        return ToolApproved(
            call_id=entry.call.id,
            name=entry.call.name,
            verdict=verdict,
            identity=entry.identity,
            arguments=arguments,
            why=why,
            by=who,
        )

    return await write_word(store, run_id, decide), seen[0]


def _waiting(state: RunState, call_id: str) -> CallEntry:
    entries = {entry.call.id: entry for entry in state.asked()}
    if call_id not in entries:
        known = ", ".join(f"{entry.call.id} ({entry.call.name})" for entry in entries.values())
        raise ConfigError(
            f"run {state.run_id} has no call {call_id} that waits",
            f"waiting: {known}" if known else "none of its calls does",
        )
    return entries[call_id]


def _check_expected(entry: CallEntry, expect: str) -> None:
    if len(expect) < LEAST_EXPECTED or not entry.identity.startswith(expect.lower()):
        seen, there = expect or "an empty hash", f"{entry.identity[:16]}: {entry.call.name} {entry.call.arguments}"
        raise ConfigError(
            f"call {entry.call.id} is not {seen} but {there}",
            f"look at it again, and expect that; at least {LEAST_EXPECTED} characters of it",
        )


def _check_object(arguments: str) -> None:
    try:
        decode_arguments(arguments)
    except NotArguments as error:
        raise ConfigError(str(error), 'give an object, such as {"path": "a.txt"}') from error


def _check_fit(entry: CallEntry, arguments: str, tools: Sequence[Tool]) -> None:
    for tool in tools:
        if tool.name == entry.call.name:
            try:
                tool.parse(arguments)
            except BadArguments as error:
                shape = f"give JSON like {error.shape}" if error.shape else "look at the call with heaveto show"
                raise ConfigError(f"the arguments do not fit {tool.name}: {error.problem}", shape) from error
            _refuse_secrets(entry, there_may_be=has_secrets(tool.schema))
            return
    _refuse_secrets(entry, there_may_be=Secrets().are_lost(entry.call))  # what stood there says so of a tool not known here


def _refuse_secrets(entry: CallEntry, *, there_may_be: bool) -> None:
    if there_may_be:
        raise ConfigError(
            f"arguments for {entry.call.name} may have something secret, and the journal would keep it",
            "allow the call while the run is driven, or deny it and say why",
        )
