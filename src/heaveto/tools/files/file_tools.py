"""The built-in file tools: list, read, search, edit and write in the folder, with those of `moving.py` and `patching.py`.

What they answer is a contract: people's prompts, and our offline model, read it line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...errors import ToolError
from ...scopes import check_stop
from ..decorator import tool
from ..protocol import Call, Check, Facts, Tool
from ..surrogates import one_line, replace_surrogates
from .edits import decode_text, describe_binary, replace_once, split_lines
from .kept import note_change
from .moving import delete_file, move_file
from .patching import apply_patch
from .replacing import Seen
from .ripgrep import likely_files
from .searching import MAX_LINE_CHARS, Searcher, open_searcher
from .tree import pointing_to_files, walk_files
from .workspace import NotThere, Parts, Workspace, hash_of

__all__ = ["edit_file", "file_tools", "list_files", "read_file", "search_files", "write_file"]

_MAX_LISTED = 500
_MAX_FOUND = 200
_MAX_READ_CHARS = 40_000  # below the limit of any result, which would cut the middle out
_MAX_SHOWN_CHARS = 300  # of a matching line


@tool(effect="read")
def list_files(call: Call, path: str = ".") -> str:
    """List the files below a folder, one path a line. What .gitignore names is left out, and so are caches.

    Args:
        path: Folder, relative to the working folder.
    """
    workspace = Workspace(call.folder, writer=call.run_id)
    with pointing_to_files(workspace, path, call.hides):
        start = workspace.resolve(path)
        if start and workspace.kind(start) == "file":
            raise ToolError(f'"{path}" is a file; read_file shows it')
        found = sorted(walk_files(workspace, start))
    seen = _not_hidden(call, found)
    files = sorted(map(_name, seen))
    lines = files[:_MAX_LISTED]
    if (more := len(files) - _MAX_LISTED) > 0:
        lines.append(f"... {more} more; list a folder of it")
    lines = lines or [f'no files below "{path}"']
    return "\n".join([*lines, *_tell_hidden(len(found) - len(seen))])


@tool(effect="read")
def read_file(call: Call, path: str, first_line: int = 1, last_line: int | None = None) -> str:
    """Read a text file, whole or a range of its lines. Each line comes with its number and a tab before it.

    Args:
        path: File, relative to the working folder.
        first_line: The first line wanted, from 1.
        last_line: The last line wanted; the end of the file by default.
    """
    workspace = Workspace(call.folder, writer=call.run_id)
    with pointing_to_files(workspace, path, call.hides):
        name = _name(workspace.resolve(path))
        lines = split_lines(decode_text(name, workspace.read(path))[0])
    first, last = _check_range(name, len(lines), first_line, last_line)
    shown, end = _number_lines(lines, first, last)
    header = f"{name}, lines {first}-{end} of {len(lines)}"
    if end < last:
        shown.append(f"... cut after line {end}; read on with first_line={end + 1}")
    return "\n".join([header, *shown])


@tool(effect="read")
def search_files(call: Call, pattern: str, path: str = ".") -> str:
    """Search the text files below a folder for a regular expression. Answers with path:line: text, a match a line.

    Args:
        pattern: Regular expression in Python's syntax, matched within a line.
        path: Folder or file, relative to the working folder.
    """
    workspace = Workspace(call.folder, writer=call.run_id)
    with pointing_to_files(workspace, path, call.hides), open_searcher(pattern, _MAX_FOUND + 1) as searcher:
        start = workspace.resolve(path)
        paths = [start] if workspace.kind(start) == "file" else sorted(walk_files(workspace, start))
        seen = _not_hidden(call, paths)
        found, too_long = _search(workspace, searcher, likely_files(workspace.folder, pattern, seen))
    lines = found[:_MAX_FOUND]
    if len(found) > _MAX_FOUND:
        lines.append("... more; narrow the pattern")
    elif not found:
        lines.append("no matches")
    if too_long:
        lines.append(f"({too_long} lines longer than {MAX_LINE_CHARS} characters were not searched)")
    return "\n".join([*lines, *_tell_hidden(len(paths) - len(seen))])


def _plan_edit(call: Call, arguments: Mapping[str, Any]) -> Facts:
    workspace, path = Workspace(call.folder, writer=call.run_id), arguments["path"]
    with pointing_to_files(workspace, path, call.hides):
        seen = workspace.look(path)
        return _note(workspace, path, seen, *_edit(workspace, arguments, seen.data))


def _plan_write(call: Call, arguments: Mapping[str, Any]) -> Facts:
    workspace, path = Workspace(call.folder, writer=call.run_id), arguments["path"]
    try:
        seen = workspace.look(path)
    except NotThere:
        seen = None
    return _note(workspace, path, seen, *_write(workspace, arguments))


def _check_change(call: Call, arguments: Mapping[str, Any]) -> Check | None:
    """Whether a cut-off edit or write took effect: the file's content says."""
    facts = call.facts
    if "after" not in facts:
        return None
    try:
        now = hash_of(Workspace(call.folder, writer=call.run_id).read(arguments["path"]))
    except NotThere:
        now = None
    except ToolError as error:
        return Check("unknown", str(error))
    if now == facts["after"]:
        return Check("done", facts["result"])
    if now == facts["before"]:
        return Check("not_done", f'"{facts["path"]}" is as it was')
    return Check("unknown", f'"{facts["path"]}" is {_state(now)}: neither as it was nor as the call would have left it')


@tool(effect="write", plan=_plan_edit, check=_check_change)
def edit_file(call: Call, path: str, old: str, new: str) -> str:
    """Replace a piece of a text file. The old text must be in it exactly once, with its spaces, without line numbers.

    Args:
        path: File, relative to the working folder.
        old: The text to replace, any number of lines.
        new: The text to put in its place.
    """
    arguments = {"path": path, "old": old, "new": new}
    workspace = Workspace(call.folder, writer=call.run_id)

    def edit(data: bytes | None) -> tuple[bytes, str]:
        if data is None:
            raise NotThere(f'there is no "{path}"')
        return _edit(workspace, arguments, data)

    with pointing_to_files(workspace, path, call.hides):
        return _change(workspace, call, path, edit)


@tool(effect="write", plan=_plan_write, check=_check_change)
def write_file(call: Call, path: str, content: str) -> str:
    """Create a file, or replace all of it. Missing folders are made.

    Args:
        path: File, relative to the working folder.
        content: The whole content.
    """
    workspace = Workspace(call.folder, writer=call.run_id)
    arguments = {"path": path, "content": content}
    return _change(workspace, call, path, lambda data: _write(workspace, arguments))  # noqa: ARG005


def file_tools() -> list[Tool]:
    """The file tools: three that look, five that change."""
    return [list_files, read_file, search_files, edit_file, write_file, apply_patch, move_file, delete_file]


def _not_hidden(call: Call, paths: list[Parts]) -> list[Parts]:
    return [parts for parts in paths if not call.hides("/".join(parts))]


def _tell_hidden(count: int) -> list[str]:
    files = "1 file" if count == 1 else f"{count} files"
    return [f"({files} left out: a rule of the user's says so)"] if count else []


# --- reading --------------------------------------------------------------------------------------------------------


def _check_range(name: str, total: int, first: int, last: int | None) -> tuple[int, int]:
    if total == 0:
        return 0, 0
    last = total if last is None else min(last, total)
    if not 1 <= first <= total:
        raise ToolError(f'"{name}" has {_lines(total)}; first_line must be from 1 to {total}, not {first}')
    if last < first:
        raise ToolError(f"last_line must not be before first_line ({first}), and is {last}")
    return first, last


def _number_lines(lines: list[str], first: int, last: int) -> tuple[list[str], int]:
    shown: list[str] = []
    left = _MAX_READ_CHARS
    for number in range(max(first, 1), last + 1):
        line = f"{number}\t{_shorten(lines[number - 1], _MAX_READ_CHARS // 4)}"
        left -= len(line) + 1
        if left < 0:
            return shown, number - 1
        shown.append(line)
    return shown, last


def _search(workspace: Workspace, searcher: Searcher, paths: Iterable[Parts]) -> tuple[list[str], int]:
    found: list[str] = []
    too_long = 0
    for parts in paths:
        check_stop()
        lines = _read_lines(workspace, parts)
        too_long += sum(len(line) > MAX_LINE_CHARS for line in lines)
        name = _name(parts)
        numbers = searcher.find(name, lines, _MAX_FOUND + 1 - len(found))
        found += [f"{name}:{number}: {_shorten(lines[number - 1], _MAX_SHOWN_CHARS)}" for number in numbers]
        if len(found) > _MAX_FOUND:
            break
    return found, too_long


def _read_lines(workspace: Workspace, parts: Parts) -> list[str]:
    """The lines of a file; none when it is binary, too big, or gone meanwhile. Other encodings are read as far as can be."""
    try:
        data = workspace.read("/".join(parts))
    except ToolError:
        return []
    return [] if describe_binary(data) else split_lines(data.decode("utf-8-sig", "replace"))


def _shorten(line: str, max_chars: int) -> str:
    return line if len(line) <= max_chars else f"{line[:max_chars]} ... ({len(line) - max_chars} more characters)"


def _name(parts: Parts) -> str:
    return one_line("/".join(parts) or ".")


# --- changing -------------------------------------------------------------------------------------------------------


def _change(workspace: Workspace, call: Call, path: str, work_out: Callable[[bytes | None], tuple[bytes, str]]) -> str:
    result = ""

    def change(data: bytes | None) -> bytes:
        nonlocal result
        if "before" in call.facts and hash_of(data) != call.facts["before"]:
            raise ToolError(f'"{path}" was changed since this call was planned; read it again')
        after, result = work_out(data)
        return after

    workspace.rewrite(path, change)
    return result


def _edit(workspace: Workspace, arguments: Mapping[str, Any], data: bytes) -> tuple[bytes, str]:
    name = _name(workspace.resolve(arguments["path"]))
    text, bom = decode_text(name, data)
    edit = replace_once(name, text, arguments["old"], arguments["new"])
    result = f"edited {name}, line {edit.line}: {_lines(edit.replaced)} replaced by {edit.by}"
    return bom + _encode(edit.text), result


def _write(workspace: Workspace, arguments: Mapping[str, Any]) -> tuple[bytes, str]:
    content = arguments["content"]
    name = _name(workspace.resolve(arguments["path"]))
    return _encode(content), f"wrote {name}: {_lines(len(split_lines(content)))}"


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def _encode(text: str) -> bytes:
    return replace_surrogates(text).encode()


def _note(workspace: Workspace, path: str, seen: Seen | None, after: bytes, result: str) -> Facts:
    name = "/".join(workspace.resolve(path))
    change = note_change(name, seen, after, made_folders=0 if seen else workspace.count_missing(path))
    return {"path": name, "before": change["before"], "after": change["after"], "result": result, "changes": [change]}


def _state(digest: str | None) -> str:
    return "not there" if digest is None else f"different (SHA-256 {digest[:12]}...)"
