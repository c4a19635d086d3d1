"""Opening a run's journal: a new one, or an old one under a new epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..errors import AgentError, ConfigError
from ..journal import Store, this_process
from ..journal.owner import let_go
from ..journal.records import CallSpent, DriveStarted, LimitsChanged, Record, RunStarted, Said, encode_record
from ..journal.seals import decode_entries, last_seal, seal
from ..journal.state import RunState, fold
from ..loop.budget import check_price
from ..loop.events import Emit
from ..loop.log import Log, summarize
from ..loop.outcome import Report, conclude
from ..messages import Limits, Sampling, Usage, UserMessage
from ..models import Model
from ..scopes import current_cause, finish
from ..tools.files.workspace import Workspace
from .environment import differences
from .hold import RELEASE_SECONDS, take
from .leftovers import remove_leftovers
from .run import carrying, cause_of

__all__ = ["begin", "opening_records", "read_records", "read_state", "take_up", "write_word"]

UNDONE = "The user has put the files that you had changed back as they were before"


async def begin(store: Store, started: RunStarted, emit: Emit, *, sandbox: str = "") -> Log:
    """Write a new run's first records; this process drives it from now on.

    Raises:
        JournalError: It cannot be written, or there is a run of that name.
    """
    log = Log(store, RunState.begin(started), emit, owner=(owner := this_process()))
    try:
        with carrying(lambda: Report.of(log.state, resumable=True)):
            await log.create(started.model, sandbox)
    except BaseException as error:  # a stop while it was written: the run is there, and ends here
        await finish(RELEASE_SECONDS, _end_unbegun, log, cause_of(error, current_cause()))
        let_go(owner)  # it may yet be written
        raise
    return log


async def _end_unbegun(log: Log, error: BaseException) -> None:
    try:
        if not await log.is_ours():
            return  # it was never written, or somebody else's run has that name: nothing is ours to end
        log.add(conclude(log.state, error, 0.0))
        await log.commit()
        await log.release()
    except AgentError:  # the store cannot be told, which is why we are here
        pass


async def take_up(
    store: Store,
    run_id: str,
    emit: Emit,
    *,
    model: Model,
    limits: Limits | None = None,
    say: UserMessage | None = None,
    sampling: Sampling | None = None,
    answer: str = "",
    sandbox: str = "",
    tools: Sequence[str],
    folder: Path,
) -> Log:
    """Become the driver of an old run, and write down that this happened.

    Args:
        run_id: The run's name, or the beginning of it.
        sampling: How the model shall write from now on.
        answer: The name and the hash of the form that the answer has to fit from now on; empty for any text.
        sandbox: The name of what commands are kept in from now on.
        tools: The names of those that there are from now on.
        folder: Where the run works from now on, and where a killed driver may have left temporary files.

    Raises:
        RunNotFound, RunTaken, JournalNewer, JournalDamaged: It cannot be taken up.
        ConfigError: It has its answer, and there is nothing new to say; an undo of it was cut off; a dollar limit could not
            be kept; or its answer has to fit a form, and now any text would do.
    """
    run_id = await store.find(run_id)
    hold = await take(store, run_id)
    try:
        entries = await store.read(run_id)
        records = list(decode_entries(run_id, entries))
        state = fold(records)
        if say is None and state.finished is not None and state.finished.outcome == "answered":
            raise ConfigError(f"run {run_id} has its answer already", "to go on from it, say something new")
        if state.undoing:
            raise ConfigError(f"an undo of run {run_id} was cut off", f"finish it first: heaveto undo {run_id}")
        if state.started.answer and not answer:
            asked = state.started.answer.rpartition(" ")[0]
            raise ConfigError(f'run {run_id} has to end with "{asked}"', "resume it with an agent that has output=")
        check_price(limits or state.limits, model)
        await remove_leftovers(records, Workspace(folder, writer=run_id))
        log = Log(store, state, emit, owner=hold.owner, seal=last_seal(entries))
        drive = DriveStarted(
            epoch=hold.epoch,
            model=model.name,
            resumed=True,
            sampling=None if sampling == state.started.sampling else sampling,
            answer=None if answer == state.started.answer else answer,
            sandbox=sandbox,
            tools=None if tuple(tools) == state.tools else tuple(tools),
            folder=None if str(folder) == state.folder else str(folder),
            differences=tuple(differences(state, model=model.name, tools=tools, folder=str(folder))),
        )
        log.add(*opening_records(state, drive, limits, say))
        await log.commit()
    except BaseException:
        await finish(RELEASE_SECONDS, hold.release)
        raise
    return log


async def write_word(store: Store, run_id: str, decide: Callable[[RunState], Record]) -> str:
    """Write a person's word on a run that nobody drives; returns the run's whole name.

    Args:
        run_id: The run's name, or the beginning of it.
        decide: Makes the record of it; what it raises leaves the run as it was.

    Raises:
        RunNotFound, RunTaken: It cannot be taken up.
    """
    run_id = await store.find(run_id)
    hold = await take(store, run_id)
    try:
        entries = await store.read(run_id)
        state = fold(decode_entries(run_id, entries))
        record = decide(state)
        state.apply(record)
        await store.append(run_id, hold.epoch, seal([encode_record(record)], last_seal(entries)), summarize(state))
    finally:
        await finish(RELEASE_SECONDS, hold.release)
    return run_id


async def read_records(store: Store, run_id: str) -> list[Record]:
    """A run's records, decoded.

    Raises:
        RunNotFound, JournalNewer, JournalDamaged: They cannot be read.
    """
    return list(decode_entries(run_id, await store.read(run_id)))


async def read_state(store: Store, run_id: str) -> RunState:
    """A run as far as it came. Errors as in `read_records`."""
    return fold(await read_records(store, run_id))


def opening_records(
    state: RunState, drive: DriveStarted, limits: Limits | None, say: UserMessage | None
) -> Iterator[Record]:
    """What a drive of an old run begins with."""
    if state.finished is None and not state.open_calls and state.answer is None:
        # Killed, and no tool call was open: a model call may have been under way, whose spend nobody knows.
        killed = {"code": "killed", "text": "the process ended during a model call, or just before one"}
        yield CallSpent(turn=state.turns + 1, usage=Usage(estimated=True), error=killed)
    yield drive
    if undone := state.undone:
        yield Said(content=f"{UNDONE}: {', '.join(undone)}. Look again before you go on.")
    if limits is not None and limits != state.limits:
        yield LimitsChanged(limits=limits)
    if say is not None:
        yield Said(content=say.content, parts=say.parts)
