"""The built-in tools that move and delete a file. Like an edit's, a cut-off call's outcome is found out by looking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ToolError
from ..decorator import tool
from ..protocol import Call, Check, Facts
from ..surrogates import one_line
from .kept import note_change, note_move
from .workspace import NotThere, Workspace, hash_of

__all__ = ["delete_file", "move_file"]


def _plan(call: Call, arguments: Mapping[str, Any]) -> Facts:
    """The content's hash. What is at a move's other end is seen when it is made, which refuses then."""
    workspace = Workspace(call.folder, writer=call.run_id)
    names = {name: "/".join(workspace.resolve(arguments[name])) for name in ("path", "to") if name in arguments}
    seen = workspace.look(arguments["path"])
    changes = [note_change(names["path"], seen, None)]
    if "to" in names:
        changes.append(note_move(names["to"], changes[0], made_folders=workspace.count_missing(names["to"])))
    return {**names, "before": hash_of(seen.data), "changes": changes}


def _check(call: Call, arguments: Mapping[str, Any]) -> Check | None:  # noqa: ARG001 - the protocol's
    """Whether the file still has its old path, and for a move, whether the new one has its content."""
    facts = call.facts
    if "before" not in facts:
        return None
    try:
        now, there = (_hash_at(call, facts[name]) if name in facts else None for name in ("path", "to"))
    except ToolError as error:
        return Check("unknown", str(error))
    if now is None and there == (facts["before"] if "to" in facts else None):
        return Check("done", _say(facts))
    if now == facts["before"] and there is None:
        return Check("not_done", f'"{facts["path"]}" is where it was')
    return Check("unknown", f"{_state(facts['path'], now)}{_and_state(facts.get('to'), there)}: that is no end of this call")


@tool(effect="write", plan=_plan, check=_check)
def move_file(call: Call, path: str, to: str) -> str:
    """Move a file, or give it another name. Nothing may be there yet. Missing folders are made.

    Args:
        path: File, relative to the working folder.
        to: Its new path, relative to the working folder.
    """
    workspace = Workspace(call.folder, writer=call.run_id)
    workspace.move(path, to, lambda data: _refuse_changed(call, path, data))
    return _say({"path": "/".join(workspace.resolve(path)), "to": "/".join(workspace.resolve(to))})


@tool(effect="write", plan=_plan, check=_check)
def delete_file(call: Call, path: str) -> str:
    """Delete a file. There is no way back.

    Args:
        path: File, relative to the working folder.
    """
    workspace = Workspace(call.folder, writer=call.run_id)
    workspace.delete(path, lambda data: _refuse_changed(call, path, data))
    return _say({"path": "/".join(workspace.resolve(path))})


def _refuse_changed(call: Call, path: str, data: bytes) -> None:
    if "before" in call.facts and hash_of(data) != call.facts["before"]:
        raise ToolError(f'"{path}" was changed since this call was planned; read it again')


def _hash_at(call: Call, path: str) -> str | None:
    try:
        return hash_of(Workspace(call.folder, writer=call.run_id).read(path))
    except NotThere:
        return None


def _say(facts: Mapping[str, Any]) -> str:
    path = one_line(facts["path"])
    return f"moved {path} to {one_line(facts['to'])}" if "to" in facts else f"deleted {path}"


def _and_state(path: str | None, digest: str | None) -> str:
    return "" if path is None else f", {_state(path, digest)}"


def _state(path: str, digest: str | None) -> str:
    return f'"{path}" is ' + ("not there" if digest is None else f"there (SHA-256 {digest[:12]}...)")
