"""What a killed process left in the folder: the temporary files of a change that it was making.

They are found by the journal, which has the paths of each change before it begins, and by the run's name in theirs. Whoever
looks has taken the run over, and holds the folder's lock while they go; so no driver is writing one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..causes import Stop
from ..errors import ToolError, ToolFatal
from ..journal.records import Record, ToolStarted
from ..scopes import call_in_thread
from ..tools.files.kept import read_changes
from ..tools.files.workspace import Workspace

__all__ = ["remove_leftovers"]


async def remove_leftovers(records: Iterable[Record], workspace: Workspace) -> None:
    """Remove what earlier drivers of the run left there. A folder that cannot be looked into keeps nobody from going on."""
    started = (record for record in records if isinstance(record, ToolStarted))
    paths = {change.path for record in started for change in read_changes(record.facts)}
    if paths:
        await call_in_thread(_remove, workspace, paths)


def _remove(workspace: Workspace, paths: Collection[str]) -> None:
    try:
        workspace.remove_leftovers(paths)
    except Stop:  # a passed deadline is an OSError too
        raise
    except (ToolError, ToolFatal, OSError):
        pass  # such as a folder that is gone: whoever needs it says so
