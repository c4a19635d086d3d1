"""Which calls ask a person, and what a person says while the run waits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heaveto.errors import ApprovalNeeded, ConfigError
from heaveto.journal import MemoryStore
from heaveto.messages import ToolCall, ToolMessage
from heaveto.runs import Agent, Permissions, approve_call, read_records
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import file_tools, run_command_tool, tool

done: list[str] = []


@tool(effect="write", approval=True)
async def run_command(command: str | list[str]) -> str:
    """Run."""
    done.append(command if isinstance(command, str) else " ".join(command))
    return f"ran {command}"


@tool(effect="write")
async def edit(path: str) -> str:
    """Edit."""
    return "edited"


@tool(effect="read")
async def look(path: str) -> str:
    """Look."""
    return "seen"


def call(name: str, value: Any) -> ToolCall:
    return ToolCall("c", name, json.dumps({"x": value}))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("ask", [None, None, True]),
        ("accept-edits", [None, True, True]),
        ("auto", [True, True, True]),
        ("deny", ["the user allows no such calls; go on without them", True, True]),
    ],
)
def test_modes(mode: Any, expected: list[Any]) -> None:
    permit = Permissions(mode)
    assert [permit(each, call(each.name, "x")) for each in (run_command, edit, look)] == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git diff", True),
        ("git diff --stat", True),
        (["git", "diff", "a;b"], True),
        ("git push", None),
        ("git diff; rm -r .", None),
        ("git diff && curl x", None),
        ("git diff $(rm x)", None),
        ("git diff `rm x`", None),
        ("git diff > /etc/passwd", None),
        ("git diff\nrm x", None),
    ],
)
def test_a_pattern_allows_one_plain_command(command: Any, allowed: Any) -> None:
    permit = Permissions(allow=["run_command(git diff*)"])
    assert permit(run_command, call("run_command", command)) is allowed  # type: ignore[arg-type]


def test_a_denial_wins_and_reaches_into_compound_commands() -> None:
    permit = Permissions("auto", allow=["run_command"], deny=["run_command(*sudo*)"])
    assert permit(run_command, call("run_command", "ls")) is True  # type: ignore[arg-type]
    assert permit(run_command, call("run_command", "ls; sudo ls")) == "a rule of the user's forbids it"  # type: ignore[arg-type]


PATCH = "*** Begin Patch\n*** Update File: docs/a\n*** Move to: {}\n*** Add File: docs/./b\n+x\n*** End Patch"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("run_command", {"cwd": "git diff", "command": "rm -r ."}, None),
        ("run_command", {"cwd": "x", "command": "git diff"}, True),
        ("write_file", {"content": "docs/x", "path": "src/x"}, None),
        ("write_file", {"content": "src", "path": "docs/x"}, True),
        ("write_file", {"content": "", "path": "docs/../src/x"}, None),
        ("write_file", {"content": "", "path": "./secret/x"}, False),
        ("write_file", {"content": "", "path": "/home/me/project/secret/x"}, False),
        ("write_file", {"content": "", "path": "/home/me/project/docs/x"}, None),
        ("move_file", {"path": "docs/a", "to": "docs/b"}, True),
        ("move_file", {"path": "docs/a", "to": "src/b"}, None),
        ("move_file", {"path": "docs/a", "to": "secret/b"}, False),
        ("apply_patch", {"patch": PATCH.format("docs/c")}, True),
        ("apply_patch", {"patch": PATCH.format("src/c")}, None),
        ("apply_patch", {"patch": PATCH.format("docs/../secret/c ")}, False),
    ],
)
def test_a_pattern_is_for_the_first_argument_or_for_all_paths(name: str, arguments: Any, expected: bool | None) -> None:
    """However the model orders and spells them."""
    permit = Permissions("ask", allow=["run_command(git diff*)", "*(docs/*)"], deny=["*(secret/*)"])
    tools = {each.name: each for each in (*file_tools(), run_command_tool())}
    found = permit(tools[name], ToolCall("c", name, json.dumps(arguments)))
    assert found is expected or (expected is False and found == "a rule of the user's forbids it")


FORBIDDEN = "a rule of the user's forbids it"
UNIFIED = "--- a/docs/a\n+++ b/secret/x\n@@ -1 +1 @@\n-a\n+b\n"
NESTED = "*** Begin Patch\n*** Add File:  secret/x\n+x\n*** End Patch"


def takes(*names: str) -> Any:
    """A tool of somebody else's, of whose arguments only the names are known."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    return SimpleNamespace(name="fs__do", effect="write", approval=True, schema=schema)


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "secret"},
        {"path": "secret/"},
        {"path": "docs/./..//secret/x"},
        {"path": "SECRET/x"},
        {"path": "./secret/x://y"},
        {"path": "{folder}/secret/x"},
        {"path": "link/x"},
        {"path": "docs/file"},
        {"path": "link/../secret/x"},
        {"source": "docs/a", "destination": "secret/x"},
        {"from": "secret/x", "to": "docs/a"},
        {"paths": ["docs/a", "secret/x"]},
        {"edits": [{"filePath": "secret/x"}]},
        {"old_path": "docs/a", "new_path": "secret/x"},
        {"command": "ls", "cwd": "./secret"},
        {"only": "./secret/test_x.py::test_y"},
        {"patch": UNIFIED},
        {"patch": NESTED.replace("  ", " ")},
        {"diff": "rename from docs/a\nrename to secret/x\n"},
    ],
    ids=str,
)
def test_a_denial_holds_for_every_path_in_every_spelling(arguments: dict[str, Any], tmp_path: Path) -> None:
    """And so does a rule that has a person asked, whatever is allowed."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret" / "x").touch()
    (tmp_path / "link").symlink_to("secret")
    (tmp_path / "docs" / "file").symlink_to("../secret/x")
    said = ToolCall("c", "fs__do", json.dumps(arguments).replace("{folder}", str(tmp_path)))
    tool = takes(*arguments)
    assert Permissions("auto", allow=["*"], deny=["fs__*(secret/*)"]).within(tmp_path)(tool, said) == FORBIDDEN
    assert Permissions("auto", allow=["*"], ask=["fs__*(secret/*)"]).within(tmp_path)(tool, said) is None
    assert Permissions("auto", allow=["*"], ask=["*(secret/*)"], deny=["fs__do"]).within(tmp_path)(tool, said) == FORBIDDEN
    assert Permissions("auto", deny=[f"*({tmp_path}/secret/*)"]).within(tmp_path)(tool, said) == FORBIDDEN
    assert Permissions("auto", deny=["*(other/*)"], ask=["other(secret/*)"]).within(tmp_path)(tool, said) is True
    if "{folder}" not in str(arguments):
        assert Permissions("auto", deny=[f"*(*{tmp_path.name}*)"]).within(tmp_path)(tool, said) is True, (
            "where the folder is"
        )


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        ({"path": "docs/a"}, True),
        ({"path": "{folder}/docs/a"}, True),
        ({"path": "docs/file"}, None),
        ({"path": "docs/../secret/x"}, None),
        ({"path": "DOCS/a"}, None),
        ({"source": "docs/a", "destination": "docs/b"}, True),
        ({"source": "docs/a", "destination": "src/b"}, None),
        ({"paths": ["docs/a", "docs/b"]}, True),
        ({"paths": ["docs/a", "src/b"]}, None),
        ({"patch": UNIFIED}, None),
    ],
    ids=str,
)
def test_a_permission_fits_every_path_where_its_links_lead(arguments: Any, allowed: bool | None, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "file").symlink_to("../secret/x")
    permit = Permissions(allow=["fs__do(docs/*)"]).within(tmp_path)
    said = ToolCall("c", "fs__do", json.dumps(arguments).replace("{folder}", str(tmp_path)))
    assert permit(takes(*arguments), said) is allowed


def test_arguments_are_read_as_the_tool_reads_them() -> None:
    """A line break inside a string is one for the tool; nothing is allowed by it, and nothing gets past a denial."""
    write_file = next(each for each in file_tools() if each.name == "write_file")
    said = ToolCall("c", "write_file", '{"path": "secret/x", "content": "a\nb"}')
    assert Permissions("auto", deny=["*(secret/*)"])(write_file, said) == FORBIDDEN
    cut = ToolCall("c", "write_file", '{"path": "secret/x')
    assert Permissions("auto", deny=["*(other/*)"])(write_file, cut) == FORBIDDEN, "who knows what it names"
    assert Permissions("ask", allow=["*(*)"])(write_file, cut) is None


def test_a_path_is_known_by_its_type_too() -> None:
    @tool(effect="write")
    def render(where: Path, also: list[Path], mood: str) -> str:
        """Render."""
        return ""

    permit = Permissions("auto", deny=["*(secret/*)"])
    for values in ({"where": "secret/x", "also": []}, {"where": "x", "also": ["./secret/y"]}):
        assert permit(render, ToolCall("c", "render", json.dumps({"mood": "good", **values}))) == FORBIDDEN
    said = ToolCall("c", "render", json.dumps({"where": "x", "also": [], "mood": "./secret/x"}))
    assert permit(render, said) is True


@pytest.mark.parametrize("rules", [{"deny": ["*(secret/*)"]}, {"ask": ["*(secret/*)"]}], ids=str)
@pytest.mark.anyio
async def test_what_rules_name_is_not_come_upon(rules: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    for name in ("secret/key.txt", "open.txt"):
        (tmp_path / name).write_text("the word\n")
    (tmp_path / "link.txt").symlink_to("secret/key.txt")
    looks = calls(
        ("list_files", {}),
        ("search_files", {"pattern": "word"}),
        ("read_file", {"path": "keys.txt"}),
        ("list_files", {"path": "."}),
    )
    model = scripted(looks, "fine")
    agent = Agent(model=model, store=MemoryStore(), tools=file_tools(), folder=tmp_path, permit=Permissions("auto", **rules))
    listed, found, missed, again = [text for _, text in answers(await agent.run("go"))]
    assert listed == again == "open.txt\n(2 files left out: a rule of the user's says so)"
    assert found == "open.txt:1: the word\n(2 files left out: a rule of the user's says so)"
    assert "key.txt" not in missed.replace("keys.txt", "")


@pytest.mark.anyio
async def test_what_a_person_allowed_is_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("the word\n")

    async def approve(call: ToolCall) -> bool:
        return True

    agent = Agent(
        model=scripted(calls(("list_files", {"path": "secret"})), "fine"),
        store=MemoryStore(),
        tools=file_tools(),
        folder=tmp_path,
        permit=Permissions("auto", ask=["*(secret/*)"]),
        approve=approve,
    )
    assert answers(await agent.run("go")) == [("ok", "secret/key.txt")]


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="no rule"):
        Permissions(allow=["run command"])
    with pytest.raises(ConfigError, match="no permission mode"):
        Permissions("yolo")  # type: ignore[arg-type]


def agent(store: MemoryStore, *lines: Any) -> Agent:
    return Agent(model=scripted(*lines), store=store, tools=[run_command, look], permit=Permissions())  # type: ignore[list-item]


async def waits(store: MemoryStore) -> str:
    done.clear()
    with pytest.raises(ApprovalNeeded) as caught:
        await agent(store, calls(("run_command", {"command": "make"}))).run("go", run_id="r")
    return caught.value.call_id


def answers(result: Any) -> list[tuple[str, str]]:
    return [(each.ending, each.content) for each in result.report.messages if isinstance(each, ToolMessage)]


@pytest.mark.anyio
async def test_an_approved_call_runs_at_the_resume() -> None:
    store = MemoryStore()
    call_id = await waits(store)
    found, entry = await approve_call(store, "r", call_id, "approved", who="ada")
    assert (found, entry.call.arguments) == ("r", '{"command": "make"}')
    result = await agent(store, "fine").resume("r")
    assert answers(result) == [("ok", "ran make")]
    assert done == ["make"]


@pytest.mark.parametrize(
    ("arguments", "permit", "ending"),
    [
        ('{"command": "sudo make"}', Permissions(deny=["run_command(*sudo*)"]), "denied"),
        (None, Permissions(deny=["run_command"]), "denied"),
        (None, Permissions("deny"), "ok"),
        (None, Permissions(ask=["run_command"]), "ok"),
        ('{"command": "make all"}', Permissions(deny=["run_command(*sudo*)"]), "ok"),
    ],
    ids=["edited", "said later", "a mode", "asked already", "another"],
)
@pytest.mark.anyio
async def test_a_denial_wins_over_a_persons_word_and_nothing_else_does(arguments: Any, permit: Any, ending: str) -> None:
    store = MemoryStore()
    call_id = await waits(store)
    await approve_call(store, "r", call_id, "approved", arguments=arguments)
    again: Any = Agent(model=scripted("fine"), store=store, tools=[run_command], permit=permit)
    ((ended, text),) = answers(await again.resume("r"))
    assert ended == ending
    assert ended == "ok" or (text == f"run_command was denied: {FORBIDDEN}" and done == [])


@pytest.mark.anyio
async def test_a_denied_call_is_answered_with_the_reason() -> None:
    store = MemoryStore()
    call_id = await waits(store)
    await approve_call(store, "r", call_id, "denied", why="not today")
    result = await agent(store, "fine").resume("r")
    assert answers(result) == [("denied", "run_command was denied: not today")]
    assert done == []


@pytest.mark.anyio
async def test_edited_arguments_run_and_the_model_is_told() -> None:
    store = MemoryStore()
    call_id = await waits(store)
    await approve_call(store, "r", call_id, "approved", arguments='{"command": "make test"}')
    result = await agent(store, "fine").resume("r")
    ((ending, text),) = answers(result)
    assert (ending, text) == (
        "ok",
        'a person changed the arguments to {"command": "make test"} and allowed that\nran make test',
    )
    assert done == ["make test"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"command": 7}', "do not fit run_command: command: got 7 (integer)"),
        ("{}", 'do not fit run_command: missing field "command"'),
        ('{"command": "make", "shell": true}', 'do not fit run_command: unknown field "shell"'),
        ('{"command": "ma', "the JSON ends too early"),
        ("[]", "must be a JSON object, not an array"),
        ('{"command": NaN}', "NaN"),
    ],
)
@pytest.mark.anyio
async def test_edited_arguments_have_to_fit_the_tool_before_anything_is_written(arguments: str, problem: str) -> None:
    store = MemoryStore()
    call_id = await waits(store)
    before = await read_records(store, "r")
    with pytest.raises(ConfigError, match=re.escape(problem)):
        await approve_call(store, "r", call_id, "approved", arguments=arguments, tools=[look, run_command])
    assert await read_records(store, "r") == before


@pytest.mark.anyio
async def test_edited_arguments_of_a_tool_that_is_not_known_are_checked_at_the_resume() -> None:
    store = MemoryStore()
    call_id = await waits(store)
    await approve_call(store, "r", call_id, "approved", arguments='{"command": 7}', tools=[look])
    ((ending, text),) = answers(await agent(store, "fine").resume("r"))
    assert (ending, text.partition(";")[0]) == (
        "tool_error",
        "bad arguments for run_command: command: got 7 (integer), want a string or an array",
    )
    assert done == []


@pytest.mark.anyio
async def test_there_must_be_such_a_call() -> None:
    store = MemoryStore()
    call_id = await waits(store)
    with pytest.raises(ConfigError, match="no call nope"):
        await approve_call(store, "r", "nope", "approved")
    with pytest.raises(ConfigError, match="ends too early"):
        await approve_call(store, "r", call_id, "approved", arguments="{")
    await approve_call(store, "r", call_id, "approved")
    await agent(store, "fine").resume("r")
    with pytest.raises(ConfigError, match="none of its calls"):
        await approve_call(store, "r", call_id, "approved")


@pytest.mark.anyio
async def test_the_word_may_be_bound_to_the_call_that_was_seen() -> None:
    store = MemoryStore()
    call_id = await waits(store)
    seen = ToolCall("other", "run_command", '{"command":"make"}').identity
    for wrong in (ToolCall("c", "run_command", '{"command": "make all"}').identity, seen[:7], f"{seen}0", ""):
        with pytest.raises(ConfigError, match=r'is not .* but .*: run_command \{"command": "make"\}'):
            await approve_call(store, "r", call_id, "approved", expect=wrong)
    await approve_call(store, "r", call_id, "approved", expect=seen[:12].upper())
    assert answers(await agent(store, "fine").resume("r")) == [("ok", "ran make")]
