"""The built-in tool `apply_patch`: changes of several files as one.

All of them are made or none. A kill in the middle leaves some made and others not; the plan, which is on disk by then, has
the content of each, so that the ladder finds out which, takes them back, and has the call made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ...errors import OutcomeUnknown, ToolError
from ..decorator import tool
from ..protocol import Call, Check, Facts
from ..surrogates import one_line, replace_surrogates
from .edits import decode_text
from .hunks import apply_hunks
from .kept import Change, contents_of, note_change, read_changes
from .patch_format import FilePatch, parse_patch
from .replacing import Seen
from .tree import pointing_to_files
from .workspace import NotThere, PartlyChanged, Wanted, Workspace

__all__ = ["apply_patch"]

Side: TypeAlias = Literal["before", "after", "other"]


class _Made(NamedTuple):
    """What a file is to be, the note of it, and a line for the model."""

    wanted: Wanted
    note: dict[str, Any]
    said: str


def _plan(call: Call, arguments: Mapping[str, Any]) -> Facts:
    made = _work_out(Workspace(call.folder, writer=call.run_id), arguments["patch"])
    if len(made) > 1:
        for each in made:
            if why := each.note.get("not_kept"):
                raise ToolError(
                    f'"{each.wanted.path}" cannot be changed together with others, since {why}, and so it could not be '
                    "put back; make a patch of it alone"
                )
    return {"result": _say(made), "changes": [each.note for each in made]}


def _check(call: Call, arguments: Mapping[str, Any]) -> Check | None:  # noqa: ARG001 - the protocol's
    """Whether all files are as the patch makes them, or all as they were, or which are what."""
    changes = read_changes(call.facts)
    if not changes:
        return None
    try:
        sides = _sides(call, changes)
    except ToolError as error:
        return Check("unknown", str(error))
    if set(sides.values()) == {"after"}:
        return Check("done", call.facts["result"])
    if set(sides.values()) == {"before"}:
        return Check("not_done", "all files are as they were")
    words = {"after": "changed", "before": "not changed", "other": "as neither before nor after"}
    return Check("unknown", ", ".join(f'"{path}" is {words[side]}' for path, side in sides.items()))


def _undo(call: Call, arguments: Mapping[str, Any]) -> str:  # noqa: ARG001 - the protocol's
    """Put those files back that were changed. One that somebody else has changed since is refused, and nothing is done."""
    changes, contents = read_changes(call.facts), contents_of(call.facts)
    sides = _sides(call, changes)
    if other := [path for path, side in sides.items() if side == "other"]:
        raise ToolError(f"changed since by someone else: {', '.join(other)}")
    made = [change for change in changes if sides[change.path] == "after"]
    if lost := [change.path for change in made if change.before is not None and change.before not in contents]:
        raise ToolError(f"the content from before was not kept: {', '.join(lost)}")
    back = [
        Wanted(change.path, change.after, None if change.before is None else contents[change.before], change.mode)
        for change in made
    ]
    Workspace(call.folder, writer=call.run_id).change_together(back)
    return f"put back: {', '.join(change.path for change in made) or 'nothing'}"


@tool(effect="write", plan=_plan, check=_check, undo=_undo)
def apply_patch(call: Call, patch: str) -> str:
    """Change several files as one: all of the changes are made, or none.

    A change has the lines that go ("-"), those that are new ("+"), and some lines around them (" "), with all their spaces
    and without line numbers. Where these lines are in the file more than once, a line "@@ " and a line above the place tells
    which. Changes come in the order of the file.

    Args:
        patch: "*** Begin Patch", then for each file "*** Update File: path" with its changes (and "*** Move to: path" right
            behind it, to move the file), or "*** Add File: path" with "+" lines, or "*** Delete File: path"; then "*** End
            Patch".
    """
    workspace = Workspace(call.folder, writer=call.run_id)
    made = _work_out(workspace, patch)
    planned = {change.path: change.before for change in read_changes(call.facts)}
    for each in made:
        if planned and planned.get(each.wanted.path, "") != each.wanted.before:
            raise ToolError(f'"{each.wanted.path}" was changed since this call was planned; read it again')
    try:
        workspace.change_together([each.wanted for each in made])
    except PartlyChanged as error:
        stuck = ", ".join("/".join(parts) for parts in error.stuck)
        raise OutcomeUnknown("apply_patch", call.call_id, f"these could not be changed back: {stuck}") from error
    return _say(made)


def _sides(call: Call, changes: list[Change]) -> dict[str, Side]:
    now = Workspace(call.folder, writer=call.run_id).hashes([change.path for change in changes])
    return {change.path: _side(change, now[change.path]) for change in changes}


def _side(change: Change, now: str | None) -> Side:
    return "after" if now == change.after else "before" if now == change.before else "other"


def _work_out(workspace: Workspace, patch: str) -> list[_Made]:
    made = [each for file in parse_patch(patch) for each in _of_file(workspace, file)]
    seen: set[str] = set()
    for each in made:
        if each.wanted.path in seen:
            raise ToolError(f'"{each.wanted.path}" is in the patch twice; put its changes under one header')
        seen.add(each.wanted.path)
    return made


def _of_file(workspace: Workspace, file: FilePatch) -> Iterator[_Made]:
    path = "/".join(workspace.resolve(file.path))
    if file.kind == "add":
        lines = file.added
        said = f"added {one_line(path)}: {len(lines)} {'line' if len(lines) == 1 else 'lines'}"
        yield _new(workspace, path, replace_surrogates("".join(f"{line}\n" for line in lines)).encode(), said)
        return
    with pointing_to_files(workspace, file.path):
        seen = workspace.look(file.path)
    if file.kind == "delete":
        yield _gone(path, seen, f"deleted {one_line(path)}")
        return
    after = _changed(path, seen.data, file)
    if not file.to:
        note = note_change(path, seen, after)
        yield _Made(Wanted(path, note["before"], after), note, f"edited {one_line(path)}{_counted(file)}")
        return
    yield _gone(path, seen, "")
    to = "/".join(workspace.resolve(file.to))
    said = f"moved {one_line(path)} to {one_line(to)}{_counted(file)}"
    yield _new(workspace, to, after, said, seen.status.st_mode & 0o7777)


def _changed(path: str, data: bytes, file: FilePatch) -> bytes:
    if not file.hunks:  # it is only moved, whatever is in it
        return data
    text, bom = decode_text(path, data)
    after = bom + replace_surrogates(apply_hunks(one_line(path), text, file.hunks)).encode()
    if after == data:
        raise ToolError(f'the changes of "{path}" leave it as it is; leave it out')
    return after


def _new(workspace: Workspace, path: str, data: bytes, said: str, mode: int | None = None) -> _Made:
    try:
        workspace.look(path)
    except NotThere:
        note = note_change(path, None, data, made_folders=workspace.count_missing(path))
        return _Made(Wanted(path, None, data, mode), note, said)
    raise ToolError(f'there is a "{path}" already; update it, or give another path')


def _gone(path: str, seen: Seen, said: str) -> _Made:
    note = note_change(path, seen, None)
    return _Made(Wanted(path, note["before"], None), note, said)


def _counted(file: FilePatch) -> str:
    added, removed = (sum(getattr(hunk, what) for hunk in file.hunks) for what in ("added", "removed"))
    return f": {added} added, {removed} removed" if file.hunks else ""


def _say(made: list[_Made]) -> str:
    lines = [each.said for each in made if each.said]
    return "\n".join([f"patched {len(lines)} {'file' if len(lines) == 1 else 'files'}", *lines])
