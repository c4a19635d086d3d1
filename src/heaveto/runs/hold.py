"""Having a run: taken by this process, and given back."""

from __future__ import annotations

from dataclasses import dataclass

from ..journal import Store, this_process
from ..journal.owner import let_go
from ..scopes import finish

__all__ = ["RELEASE_SECONDS", "Hold", "take"]

RELEASE_SECONDS = 10.0
TAKE_SECONDS = 15.0  # the store's own limit is 10; this one is for a store that has none


@dataclass(frozen=True, slots=True)
class Hold:
    """A run that this process has: nobody else may write to it."""

    store: Store
    run_id: str
    epoch: int
    owner: str

    async def release(self) -> None:
        """Give it back; where a stop may be under way by `finish(RELEASE_SECONDS, hold.release)`.

        Raises:
            JournalError, SaveTimeout: The store could not be told. This process may take the run again all the same, and
                others when it has ended.
        """
        try:
            await self.store.release(self.run_id, self.epoch)
        except BaseException:
            let_go(self.owner)
            raise


async def take(store: Store, run_id: str) -> Hold:
    """Become the run's driver. A stop that comes meanwhile gives the run back.

    Raises:
        RunNotFound, RunTaken: It cannot be taken.
    """
    owner, epochs = this_process(), list[int]()

    async def work() -> None:
        epochs.append(await store.take(run_id, owner))

    try:
        await finish(TAKE_SECONDS, work)  # so that a native cancellation comes when the epoch is known
    except BaseException:
        if epochs:
            await finish(RELEASE_SECONDS, Hold(store, run_id, epochs[0], owner).release)
        else:
            let_go(owner)  # it may have been written, or may yet be
        raise
    return Hold(store, run_id, epochs[0], owner)
