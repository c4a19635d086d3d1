"""What was marked secret is in no record, event or request; a call whose secrets are lost is told so, and made again."""

from __future__ import annotations

import json
from typing import Annotated, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from heaveto.causes import Cancelled
from heaveto.errors import ApprovalNeeded, ConfigError, OutcomeUnknown, ToolError
from heaveto.journal import MemoryStore, SqliteStore
from heaveto.journal.records import encode_record
from heaveto.loop.secrets import PLACE, Secrets, has_secrets
from heaveto.messages import AssistantMessage, ToolCall
from heaveto.runs import Agent, approve_call, read_records, read_state
from heaveto.testing import calls, every_await, scripted
from heaveto.tools import Call, Check, Output, tool

SECRET = 'hunter22 "quoted" é'
ESCAPED = json.dumps(SECRET)[1:-1]
Hidden = Annotated[str, Field(json_schema_extra={"writeOnly": True})]


class Login(BaseModel):
    user: str
    password: SecretStr


seen: list[Any] = []


@tool(effect="write")
async def login(who: Login, call: Call, more: list[SecretStr] | None = None, pin: Hidden = "") -> str:
    """Log in."""
    seen.append((who.user, who.password.get_secret_value(), pin))
    call.progress(f"trying {who.password.get_secret_value()}")
    await anyio.sleep(1)
    return f"hello {who.user}, your password is {who.password.get_secret_value()}"


@tool(effect="read")
async def fetch(call: Call) -> str:
    """Fetch, with a token that nobody is to see."""
    call.keep_secret("tok-123456")
    call.progress("with tok-123456")
    await anyio.sleep(0.1)
    raise ToolError("401: tok-123456 has expired")


BARE = calls(("login", {"who": {"user": "ada", "password": SECRET}}))
ASKED = calls(("login", {"who": {"user": "ada", "password": SECRET}, "pin": "pin of 4"}))


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


def agent_of(*lines: Any, store: Any, tools: Any = (login, fetch), **options: Any) -> Agent[Any]:
    return Agent(model=scripted(*lines), tools=list(tools), store=store, **options)


def assert_hidden(told: str) -> None:
    for secret in (SECRET, ESCAPED, "hunter22", "pin of 4"):
        assert secret not in told


async def all_that_is_told(agent: Agent[Any], store: MemoryStore) -> str:
    """The journal, and every event, as text."""
    async with agent.start("go", run_id="run") as run:
        events = [json.dumps(event.to_data(), ensure_ascii=False) async for event in run.events()]
        await run.wait()
    records = [encode_record(record).decode() for record in await read_records(store, "run")]
    return "\n".join([*events, *records])


@pytest.mark.anyio
async def test_a_marked_argument_reaches_the_tool_and_nothing_else() -> None:
    store, asked = MemoryStore(), []

    def last(request: Any) -> Any:
        asked.append(repr(list(request.transcript)))
        return f"the password was {SECRET}"

    told = await all_that_is_told(agent_of(ASKED, last, store=store), store)
    assert seen == [("ada", SECRET, "pin of 4")]
    assert_hidden(told + "".join(asked))
    assert told.count(PLACE) > 5
    assert f"hello ada, your password is {PLACE}" in told
    assert f"trying {PLACE}" in told
    assert (await read_state(store, "run")).answer == f"the password was {PLACE}"


@pytest.mark.anyio
async def test_what_a_tool_calls_secret_is_hidden_from_then_on() -> None:
    store = MemoryStore()
    told = await all_that_is_told(agent_of(calls(("fetch", {})), "is it tok-123456?", store=store), store)
    assert "tok-123456" not in told
    assert f"401: {PLACE} has expired" in told
    assert f"with {PLACE}" in told


@pytest.mark.anyio
async def test_it_is_hidden_in_the_arguments_of_other_calls_too_which_get_it() -> None:
    @tool(effect="read")
    async def curl(command: str) -> str:
        """Run curl."""
        seen.append(command)
        return "ok"

    store = MemoryStore()
    asking = calls(
        ("login", {"who": {"user": "ada", "password": "hunter22"}}), ("curl", {"command": "curl -u ada:hunter22"})
    )
    told = await all_that_is_told(agent_of(asking, "fine", store=store, tools=(login, curl)), store)
    assert "curl -u ada:hunter22" in seen
    assert_hidden(told)


@pytest.mark.anyio
@pytest.mark.parametrize("arguments", ['{"who": {"user": "ada", "password": "hunter22', '["hunter22"]', "hunter22"])
async def test_arguments_that_cannot_be_read_are_hidden_whole(arguments: str) -> None:
    store = MemoryStore()
    told = await all_that_is_told(agent_of(calls(("login", arguments)), "fine", store=store), store)
    assert_hidden(told)
    assert seen == []


@pytest.mark.anyio
async def test_the_model_that_repeats_what_it_is_shown_is_told_to_give_it_in_full() -> None:
    store = MemoryStore()
    imitated = calls(("login", {"who": {"user": "ada", "password": PLACE}}))
    result = await agent_of(imitated, ASKED, "fine", store=store).run("go", run_id="run")
    assert "not run: its secret values are not kept; call it again with all of them" in str(result.report.messages)
    assert seen == [("ada", SECRET, "pin of 4")]


# --- another process ------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process dies here."""


async def left_by_a_killed_process(store: MemoryStore, *tools: Any) -> None:
    """The call had its marker, and ran."""
    async with agent_of(BARE, store=store, tools=tools).start("go", run_id="run") as run:
        await anyio.sleep(0.5)
        entries, row = list(await store.read("run")), (await store.runs())[0]
        run.cancel(Cancelled())
    await store.delete("run", row.epoch)
    await store.restore("run", row.epoch, entries, row.summary)


@pytest.mark.anyio
async def test_a_call_that_had_not_begun_is_made_again_by_the_model() -> None:
    @tool(effect="write", approval=True)
    async def login(who: Login) -> str:
        """Log in."""
        seen.append(who.password.get_secret_value())
        return "in"

    store = MemoryStore()
    approved: list[str] = []

    async def approve(call: ToolCall) -> bool:
        approved.append(call.arguments)
        return True

    with pytest.raises(ApprovalNeeded):
        await agent_of(BARE, store=store, tools=[login]).run("go", run_id="run")
    agent = agent_of(calls(("login", {"who": {"user": "ada", "password": SECRET}})), "fine", store=store, tools=[login])
    agent._toolbox.__dict__["approve"] = approve
    result = await agent.resume("run")
    assert result.text == "fine"
    assert seen == [SECRET]
    assert_hidden("".join(approved))


@pytest.mark.anyio
async def test_a_person_is_told_that_a_secret_was_not_kept_or_would_be() -> None:
    @tool(effect="write", approval=True)
    async def login(who: Login) -> str:
        """Log in."""
        return "in"

    store = MemoryStore()
    with pytest.raises(ApprovalNeeded):
        await agent_of(BARE, store=store, tools=[login]).run("go", run_id="run")
    (entry,) = (await read_state(store, "run")).asked()
    call_id = entry.call.id
    with pytest.raises(ConfigError, match=f"call {call_id} has something secret, which was not kept; deny it"):
        await approve_call(store, "run", call_id, "approved")
    for tools in ([login], []):  # `heaveto approve` does not know a program's tools
        with pytest.raises(
            ConfigError, match="arguments for login may have something secret, and the journal would keep it"
        ):
            await approve_call(store, "run", call_id, "approved", arguments=entry.call.arguments, tools=tools)
    assert_hidden("".join(entry.body.decode() for entry in await store.read("run")))
    await approve_call(store, "run", call_id, "denied", why="not now")
    assert (await agent_of("fine", store=store, tools=[login]).resume("run")).text == "fine"


@pytest.mark.anyio
async def test_what_a_person_gave_who_did_not_know_that_it_is_marked_is_not_told_to_the_model() -> None:
    @tool(effect="write", approval=True)
    async def login(user: str, password: SecretStr | None = None) -> str:
        """Log in."""
        assert password is not None
        seen.append(password.get_secret_value())
        return f"in with {password.get_secret_value()}"

    store = MemoryStore()
    with pytest.raises(ApprovalNeeded):
        await agent_of(calls(("login", {"user": "ada"})), store=store, tools=[login]).run("go", run_id="run")
    (entry,) = (await read_state(store, "run")).asked()
    edited = json.dumps({"user": "ada", "password": SECRET})
    await approve_call(store, "run", entry.call.id, "approved", arguments=edited)
    result = await agent_of("fine", store=store, tools=[login]).resume("run")
    assert seen == [SECRET]
    assert_hidden("".join(str(message.content) for message in result.report.messages))


@pytest.mark.anyio
async def test_a_call_that_may_have_run_is_not_run_with_something_else() -> None:
    store = MemoryStore()

    @tool(effect="write", idempotency_key=True)
    async def login(who: Login) -> str:
        """Log in."""
        seen.append(who.password.get_secret_value())
        await anyio.sleep(1)
        return "in"

    await left_by_a_killed_process(store, login)
    with pytest.raises(OutcomeUnknown, match="its secret values are not kept"):
        await agent_of(store=store, tools=[login]).resume("run")
    assert seen == [SECRET]


@pytest.mark.anyio
async def test_a_check_is_asked_all_the_same() -> None:
    async def there(call: Call, arguments: Any) -> Check:
        seen.append(("check", call.key, arguments["who"].password.get_secret_value()))
        return Check("done", "it is logged in")

    @tool(effect="write", check=there)
    async def login(who: Login) -> str:
        """Log in."""
        await anyio.sleep(1)
        return "in"

    store = MemoryStore()
    await left_by_a_killed_process(store, login)
    assert (await agent_of("fine", store=store, tools=[login]).resume("run")).text == "fine"
    assert [each[2] for each in seen if each[0] == "check"] == [PLACE]


def test_a_stop_at_every_await_lets_nothing_out(tmp_path: Any) -> None:
    stores: list[MemoryStore] = []

    async def whole() -> str:
        stores.append(MemoryStore())
        return (await agent_of(ASKED, f"it was {SECRET}", store=stores[-1]).run("go", run_id="run")).text

    async def told() -> str:
        store = stores[-1]
        if not await store.runs():
            return ""
        return "".join(entry.body.decode() for entry in await store.read("run")) + repr(await store.runs())

    for stopped in every_await(whole, again_after=()):
        assert_hidden(anyio.run(told, backend=stopped.backend))
        assert_hidden(str(stopped.error.report) if stopped.error is not None and hasattr(stopped.error, "report") else "")
    assert len(stores) > 20


@pytest.mark.anyio
async def test_no_byte_of_it_is_in_the_file(tmp_path: Any) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await agent_of(ASKED, f"it was {SECRET}", store=store).run("go")
    await store.aclose()
    for file in tmp_path.iterdir():
        assert b"hunter22" not in file.read_bytes()


# --- the answer, and schemas ----------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_answer_is_for_the_program() -> None:
    agent: Agent[Any] = Agent(
        model=scripted(calls(("final_answer", {"user": "ada", "password": SECRET}))),
        output=Output(Login),
        store=MemoryStore(),
    )
    assert (await agent.run("go")).output.password.get_secret_value() == SECRET


MARKED: dict[str, Any] = {"writeOnly": True}
RECURSIVE: dict[str, Any] = {"A": {"properties": {"p": MARKED, "a": {"$ref": "#/$defs/A"}}}}
ENDLESS: dict[str, Any] = {"A": {"anyOf": [{"$ref": "#/$defs/A"}, MARKED]}}
OF_A: dict[str, Any] = {"a": {"$ref": "#/$defs/A"}}
SCHEMAS: list[tuple[dict[str, Any], Any, Any]] = [
    ({"properties": {"a": {"format": "password"}}}, {"a": SECRET, "b": SECRET}, {"a": PLACE, "b": SECRET}),
    ({"properties": {"a": MARKED}}, {"a": [SECRET, {"x": 1234567}]}, {"a": PLACE}),
    ({"properties": {"a": MARKED}}, {"a": None}, {"a": None}),
    ({"properties": {"a": {"anyOf": [{"format": "password"}, {"type": "null"}]}}}, {"a": SECRET}, {"a": PLACE}),
    ({"additionalProperties": MARKED}, {"x": SECRET}, {"x": PLACE}),
    ({"properties": {"a": {"items": MARKED}}}, {"a": ["x", "y"]}, {"a": [PLACE, PLACE]}),
    ({"properties": {"a": {"prefixItems": [{}, MARKED]}}}, {"a": ["x", "y", "z"]}, {"a": ["x", PLACE, "z"]}),
    ({"properties": OF_A, "$defs": RECURSIVE}, {"a": {"p": "x", "a": {"p": "y"}}}, {"a": {"p": PLACE, "a": {"p": PLACE}}}),
    ({"properties": OF_A, "$defs": ENDLESS}, {"a": "x"}, {"a": PLACE}),
]


@pytest.mark.parametrize(("schema", "arguments", "kept"), SCHEMAS)
def test_what_a_schema_marks_is_hidden(schema: dict[str, Any], arguments: Any, kept: Any) -> None:
    assert has_secrets(schema)
    secrets = Secrets()
    message = AssistantMessage("", (ToolCall("c", "t", json.dumps(arguments)),))
    (call,) = secrets.hide(message, {"t": schema}).tool_calls
    assert json.loads(call.arguments) == json.loads(secrets.text(json.dumps(kept, ensure_ascii=False)))
    assert json.loads(secrets.arguments_of(call)) == arguments


def test_a_schema_that_marks_nothing_costs_nothing() -> None:
    assert not has_secrets({"properties": {"password": {"type": "string"}}})
    message = AssistantMessage("hi", (ToolCall("c", "t", '{"a": "⟦no"}'),))
    assert Secrets().hide(message, {}) is message


@given(st.text(min_size=6, max_size=20).filter(lambda text: text != PLACE), st.text(max_size=20), st.text(max_size=20))
def test_no_text_has_it_afterwards(secret: str, before: str, after: str) -> None:
    secrets = Secrets()
    secrets.add(secret)
    told = secrets.data({"a": [before + secret + after, json.dumps(before + secret)]})
    assert all(secret not in each.replace(PLACE, "") or secret in PLACE for each in told["a"])


@given(st.text(alphabet="ab1", min_size=6, max_size=10), st.lists(st.text(alphabet="ab1", max_size=12), max_size=12))
def test_no_piece_has_it_nor_all_together(secret: str, pieces: list[str]) -> None:
    secrets = Secrets()
    secrets.add(secret)
    stream = secrets.piecewise()
    told = "".join([*map(stream.feed, pieces), stream.end()])
    assert secret not in told
    assert told.replace(PLACE, secret) == "".join(pieces)
