"""A run's state, its journal and its watchers, kept in step.

`add` changes the state at once and in sync code; `commit` writes what was added and then tells the watchers, so that a
durable event that somebody has seen is on disk. The loop commits before each step that could make what it added matter.
"""

from __future__ import annotations

import anyio

from ..causes import SaveTimeout
from ..journal import Store, Summary
from ..journal.owner import let_go
from ..journal.records import DriveStarted, Record, RunFinished, encode_record, unseal
from ..journal.seals import seal
from ..journal.state import RunState
from ..scopes import current_cause, wall_time
from .events import Body, Emit, Event
from .rests import Rests
from .secrets import Secrets

__all__ = ["Log"]


class Log:
    """The one writer of a run's journal while this process drives it."""

    def __init__(self, store: Store, state: RunState, emit: Emit, *, owner: str, seal: bytes = b"") -> None:
        self._store, self.state, self._emit, self._owner = store, state, emit, owner
        self._seal = seal  # of the last record in the journal
        self._unsaved: list[Record] = []
        self._saved = state.seq  # the number of the last record in the journal
        self._pieces = 0
        self.secrets, self.rests = Secrets(), Rests()
        self.broken: BaseException | None = None  # why nothing more can be written

    async def create(self, model: str, sandbox: str = "") -> None:
        """Write the first records of a new run.

        Raises:
            JournalError: It could not be written, or there is such a run.
        """
        state = self.state
        records: list[Record] = [state.started, DriveStarted(epoch=1, model=model, sandbox=sandbox)]
        state.apply(records[1])
        self._saved = 0
        await self._store.create(state.run_id, self._owner, self._sealed(records), summarize(state))
        self._publish(records)

    async def is_ours(self) -> bool:
        """Whether the journal has the run as one that this drive has: a run's first epoch is 1, whoever began it.

        Raises:
            JournalError: It could not be read.
        """
        rows = await self._store.runs()  # if it was written, then just now, so it is among the last touched
        return any((row.run_id, row.owner) == (self.state.run_id, self._owner) for row in rows)

    def add(self, *records: Record) -> None:
        """Take records into the state, without what is secret; `commit` writes them."""
        for record in map(self.secrets.clean, records):
            self.state.apply(record)
            self._unsaved.append(record)

    def whole_result(self, call_id: str) -> str | None:
        """The whole of a result that was cut, without what has been called secret since; None when it is not kept."""
        whole = self.rests.get(call_id)
        return None if whole is None else self.secrets.text(whole)

    async def release(self) -> None:
        """Let another driver have the run. What was added and not committed is lost.

        Raises:
            JournalError: The store could not be told. This process may take the run again all the same.
        """
        try:
            await self._store.release(self.state.run_id, self.state.epoch)
        except BaseException:
            let_go(self._owner)
            raise

    async def commit(self) -> None:
        """Write what was added. It is on disk when this returns, and also when a stop comes while it is under way.

        Raises:
            Fenced, JournalError, SaveTimeout: It could not be written; nothing is written from now on.
        """
        if self.broken is not None:
            raise self.broken
        if not self._unsaved:
            return
        records, self._unsaved = self._unsaved, []
        state = self.state
        try:
            await self._store.append(state.run_id, state.epoch, self._sealed(records), summarize(state))
        except anyio.get_cancelled_exc_class() as cancelled:
            if isinstance(cause := current_cause(), SaveTimeout):
                self.broken = cause  # a store that its own limit does not end was left to itself
            elif cancelled.__cause__ is None:  # a native cancellation: the store finished first, then let it go on
                self._publish(records)
            raise
        except Exception as error:  # boundary: whatever the store says, the journal cannot be trusted to go on
            self.broken = error
            raise
        self._publish(records)

    def _sealed(self, records: list[Record]) -> list[bytes]:
        bodies = seal(map(encode_record, records), self._seal)
        self._seal = unseal(bodies[-1])[1]
        return bodies

    def tell(self, body: Body) -> None:
        """Tell the watchers something that is not kept."""
        self._pieces += 1
        body = self.secrets.clean(body)
        self._emit(Event(f"{self._saved}.{self._pieces}", self.state.run_id, wall_time(), False, body))

    def _publish(self, records: list[Record]) -> None:
        first = self._saved + 1
        self._saved, self._pieces = self._saved + len(records), 0
        now = wall_time()
        for seq, record in enumerate(records, first):
            self._emit(Event(str(seq), self.state.run_id, now, True, record))


def summarize(state: RunState) -> Summary:
    """What a list of runs shows of this one."""
    finished: RunFinished | None = state.finished
    return Summary(
        task=state.started.task,
        folder=state.started.folder,
        model=state.started.model,
        phase=finished.outcome if finished else "running",
        why=finished.why if finished else "",
        cause=(finished.cause or {}).get("code", "") if finished else "",
        turns=state.turns,
        cost_usd=state.spend.cost_usd,
        unpriced_calls=state.spend.unpriced_calls,
    )
