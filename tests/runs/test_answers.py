"""Runs that end with an answer in a form: by the final tool and by the API's own schema, corrected and given up on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel, field_validator
from typing_extensions import TypedDict  # pydantic wants this one below Python 3.12

from heaveto.causes import Cancelled
from heaveto.errors import (
    ApprovalNeeded,
    ConfigError,
    IncompleteStream,
    NoFinalAnswer,
    OutputFiltered,
    OutputTruncated,
    Refused,
    ToolFatal,
    WrongAnswer,
)
from heaveto.journal import MemoryStore
from heaveto.journal.records import AnswerRejected, DriveStarted, RunStarted, ToolFinished
from heaveto.loop import TextPiece
from heaveto.messages import AssistantMessage, Finish, Message, Reply, Sampling, ToolMessage, UserMessage
from heaveto.models import Request, by_name
from heaveto.retry import RetryPolicy
from heaveto.runs import Agent, approve_call, fork_run, read_records, replay
from heaveto.testing import Answered, Cut, FaultyExchange, calls, scripted
from heaveto.tools import Output, tool

pytestmark = pytest.mark.anyio


class Weather(BaseModel):
    city: str
    degrees: float
    sky: Literal["clear", "cloudy"] = "clear"

    @field_validator("city")
    @classmethod
    def no_shouting(cls, city: str) -> str:
        if city.isupper():
            raise ValueError("a city is not shouted")
        if city == "nowhere":
            raise KeyError("a bug in the program")
        return city


class Mended(BaseModel):
    city: str
    degrees: float


@dataclass
class Point:
    x: int
    y: int = 0


class Pair(TypedDict):
    left: str
    right: str


RIGHT = {"city": "Porto", "degrees": 20}
PORTO = Weather(city="Porto", degrees=20)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
KINDS: list[tuple[Any, dict[str, Any], Any]] = [
    (Weather, RIGHT, PORTO),
    (Point, {"x": 1}, Point(1)),
    (Pair, {"left": "a", "right": "b"}, {"left": "a", "right": "b"}),
    (list[int], {"answer": [1, 2]}, [1, 2]),
    (Point | None, {"answer": None}, None),
    (SCHEMA, {"n": 3}, {"n": 3}),
    ({"enum": ["yes", "no"]}, {"answer": "no"}, "no"),
]


def given(data: Any) -> Reply:
    """The call of the final tool with this answer."""
    return calls(("final_answer", data))


@tool(effect="read")
async def look(call_id: str = "") -> str:
    """Look."""
    await anyio.sleep(1)
    return "seen"


@tool(effect="write", approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


def agent_of(*lines: Any, store: Any = None, output: Any = Weather, **options: Any) -> Agent[Any]:
    options = {"tools": [look, pay], "retry": RetryPolicy(base_seconds=0), **options}
    return Agent(model=scripted(*lines), store=store or MemoryStore(), output=output, **options)


def answers_to_calls(messages: Sequence[Message]) -> list[str]:
    """What each call was answered, in order; each call of each reply has exactly one answer."""
    answers: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.call_id == waiting.pop(0)
            answers.append(message.content)
        else:
            assert not waiting
            waiting = [call.id for call in getattr(message, "tool_calls", ())]
    assert not waiting
    return answers


# --- the answer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "sent", "value"), KINDS, ids=str)
async def test_the_answer_is_what_was_asked_for(kind: Any, sent: dict[str, Any], value: Any) -> None:
    by_tool = await agent_of(calls(("look", {})), given(sent), output=kind).run("go")
    assert (by_tool.output, json.loads(by_tool.text), by_tool.turns) == (value, sent, 2)
    native = await agent_of(calls(("look", {})), json.dumps(sent), output=Output(kind, native=True)).run("go")
    assert (native.output, json.loads(native.text), native.turns) == (value, sent, 2)


async def test_an_answer_of_nothing_but_defaults_is_one() -> None:
    @dataclass
    class Note:
        text: str = "none"

    assert (await agent_of(given(""), output=Note).run("go")).output == Note()


async def test_an_agent_without_a_form_takes_any_text() -> None:
    result = await agent_of("fine", output=None).run("go")
    assert (result.text, result.output) == ("fine", None)


async def test_who_writes_the_right_json_instead_of_calling_has_answered() -> None:
    """As small models do; prose is no answer."""
    result = await agent_of(f"\n{json.dumps(RIGHT)}").run("go")
    assert (result.output, result.turns) == (PORTO, 1)


async def test_what_is_asked_of_the_model() -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Any:
        asked.append(request)
        return given(RIGHT) if any(each.name == "final_answer" for each in request.tools) else json.dumps(RIGHT)

    for output in (Weather, Output(Weather, native=True)):
        await agent_of(answer, output=output).run("go")
    by_tool, native = asked
    assert [each.name for each in by_tool.tools] == ["look", "pay", "final_answer"]
    assert by_tool.answer is None
    assert [each.name for each in native.tools] == ["look", "pay"]
    assert native.answer is not None
    assert (native.answer.name, native.answer.schema) == ("Weather", by_tool.tools[-1].schema)


# --- corrections ----------------------------------------------------------------------------------------------------

SHAPE = '{"city": "...", "degrees": 1}'


async def test_a_wrong_answer_goes_back_with_what_was_wrong() -> None:
    wrong = [given({"city": 3}), given("[1]"), given('{"city": "Por')]
    result = await agent_of(*wrong, given(RIGHT)).run("go")
    way = f"; call final_answer with JSON like {SHAPE}"
    assert answers_to_calls(result.report.messages) == [
        f'the answer does not fit: city: got 3 (integer), want a string; missing field "degrees"{way}',
        f"the answer does not fit: the answer must be a JSON object, not an array{way}",
        f"the answer does not fit: the JSON ends too early, at character 13: the answer was cut off{way}",
        "the answer was taken",
    ]
    assert (result.output, result.spend.calls) == (PORTO, 4)


async def test_text_is_told_that_it_is_no_answer() -> None:
    result = await agent_of("It is warm.", '{"city": "PORTO", "degrees": 20}', given(RIGHT)).run("go")
    said = [message.content for message in result.report.messages if isinstance(message, UserMessage)]
    way = f"; call final_answer with JSON like {SHAPE}"
    assert said == [
        "go",
        f"that is no final answer{way}",
        f'the answer does not fit: city: got "PORTO" (string): a city is not shouted{way}',
    ]


async def test_text_that_the_api_held_to_a_schema_is_told_what_is_wrong() -> None:
    result = await agent_of("Warm.", "{}", json.dumps(RIGHT), output=Output(Weather, native=True)).run("go")
    said = [message.content for message in result.report.messages if isinstance(message, UserMessage)]
    way = f"; answer with nothing but JSON like {SHAPE}"
    assert said[1:] == [
        f'the answer does not fit: the JSON is not valid: unexpected "W" at character 1{way}',
        f'the answer does not fit: missing field "city"; missing field "degrees"{way}',
    ]


@pytest.mark.parametrize("corrections", [0, 1, 3])
async def test_a_wrong_answer_is_corrected_so_often_and_no_oftener(corrections: int) -> None:
    store = MemoryStore()
    output = Output(Weather, corrections=corrections)
    lines = [given({"city": 3, "degrees": 1})] * corrections
    assert (await agent_of(*lines, given(RIGHT), output=output).run("go")).output == PORTO
    with pytest.raises(WrongAnswer, match=r"city: got 3 \(integer\), want a string \(wrong") as caught:
        await agent_of(*lines, *lines[:1] or [given({"city": 3, "degrees": 1})], output=output, store=store).run(
            "go", run_id="run"
        )
    report: Any = caught.value.report
    assert (report.turns, report.resumable) == (corrections + 1, True)
    assert len(answers_to_calls(report.messages)) == corrections + 1
    again = await agent_of(given(RIGHT), output=output, store=store).resume("run")
    assert again.output == PORTO, "whoever resumes it wants another try"


async def test_no_answer_at_all_is_an_error_of_its_own() -> None:
    with pytest.raises(NoFinalAnswer, match=r"without a final answer: the model wrote text instead \(4 times\)") as caught:
        await agent_of(*["It is warm."] * 4).run("go")
    assert type(caught.value) is NoFinalAnswer
    assert issubclass(WrongAnswer, NoFinalAnswer)


async def test_something_new_to_say_begins_the_count_anew() -> None:
    store = MemoryStore()
    await agent_of("a", "b", "c", given(RIGHT), store=store).run("go", run_id="run")
    result = await agent_of("a", "b", "c", given({**RIGHT, "degrees": 3}), store=store).resume("run", say="and now?")
    assert result.output == Weather(city="Porto", degrees=3)


# --- calls beside it ------------------------------------------------------------------------------------------------


async def test_calls_beside_the_answer_run_and_have_their_answers() -> None:
    model_lines = calls(("look", {}), ("final_answer", RIGHT), ("nonsense", {}), ("look", {}))
    result = await agent_of(model_lines).run("go")
    assert (result.output, result.turns) == (PORTO, 1)
    answers = answers_to_calls(result.report.messages)
    assert (answers[0], answers[1], answers[3]) == ("seen", "the answer was taken", "seen")
    assert answers[2].startswith('no tool named "nonsense"')


async def test_of_two_answers_the_first_that_fits_is_taken() -> None:
    wrong, other = {"city": 3}, {"city": "Faro", "degrees": 25}
    lines = calls(("final_answer", wrong), ("final_answer", RIGHT), ("final_answer", other))
    result = await agent_of(lines).run("go")
    assert result.output == PORTO
    assert answers_to_calls(result.report.messages)[1:] == [
        "the answer was taken",
        "not taken: the answer was given already, by a call before this one",
    ]


async def test_an_answer_beside_a_call_that_waits_for_a_person_waits_too() -> None:
    store = MemoryStore()
    asked = calls(("final_answer", RIGHT), ("pay", {}))
    with pytest.raises(ApprovalNeeded):
        await agent_of(asked, store=store).run("go", run_id="run")
    await approve_call(store, "run", asked.message.tool_calls[1].id, "approved")
    result = await agent_of(store=store).resume("run")
    assert (result.output, result.turns) == (PORTO, 1)
    assert answers_to_calls(result.report.messages) == ["the answer was taken", "paid"]


async def test_what_is_said_meanwhile_comes_before_the_answer() -> None:
    store = MemoryStore()
    asked = calls(("final_answer", RIGHT), ("pay", {}))
    with pytest.raises(ApprovalNeeded):
        await agent_of(asked, store=store).run("go", run_id="run")
    await approve_call(store, "run", asked.message.tool_calls[1].id, "denied")
    result = await agent_of(given({**RIGHT, "degrees": 3}), store=store).resume("run", say="it got colder")
    assert (result.output, result.turns) == (Weather(city="Porto", degrees=3), 2)


async def test_rules_for_tools_are_none_for_the_answer() -> None:
    result = await agent_of(given(RIGHT), permit=lambda tool, call: "nothing is allowed").run("go")
    assert result.output == PORTO


# --- replies that are no answer, at each correction -----------------------------------------------------------------

ENDINGS: list[tuple[Finish, type[Exception]]] = [
    ("truncated", OutputTruncated),
    ("refused", Refused),
    ("filtered", OutputFiltered),
    ("incomplete", IncompleteStream),
]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(("finish", "error"), ENDINGS)
@pytest.mark.parametrize("corrections", [0, 1, 2, 3])
async def test_a_reply_that_ends_badly_is_no_answer(
    native: bool, finish: Finish, error: type[Exception], corrections: int
) -> None:
    """Also where its half would fit; the run goes on from there when it is resumed."""
    store, output = MemoryStore(), Output(Weather, native=native)
    bad = Reply(message=AssistantMessage(json.dumps(RIGHT)), finish=finish, refusal="I will not")
    with pytest.raises(error) as caught:
        await agent_of(*["no"] * corrections, bad, store=store, output=output).run("go", run_id="run")
    report: Any = caught.value.report
    assert (report.spend.calls, report.turns) == (corrections + 1, corrections + 1)
    assert len([message for message in report.messages if isinstance(message, UserMessage)]) == corrections + 1
    right = json.dumps(RIGHT) if native else given(RIGHT)
    assert (await agent_of("no", right, store=store, output=output).resume("run")).output == PORTO


async def test_a_bug_in_a_validator_of_the_programs_is_not_blamed_on_the_model() -> None:
    store = MemoryStore()
    for native, line in ((False, given({**RIGHT, "city": "nowhere"})), (True, json.dumps({**RIGHT, "city": "nowhere"}))):
        output = Output(Weather, native=native)
        with pytest.raises(ToolFatal, match=r"the check of the answer failed \(KeyError: 'a bug in the program'\)"):
            await agent_of(line, store=store, output=output).run("go", run_id=f"run{native}")
        mended = await agent_of(store=store, output=Output(Mended, native=native)).resume(f"run{native}")
        assert mended.output == Mended(city="nowhere", degrees=20), "the same answer, once the program is mended"


async def test_a_stop_that_a_validator_made_up_stops_nothing_and_is_a_bug() -> None:
    class Stopping(BaseModel):
        city: str

        @field_validator("city")
        @classmethod
        def check(cls, city: str) -> str:
            raise Cancelled("by nobody")

    with pytest.raises(ToolFatal, match=r"the check of the answer failed \(Cancelled: cancelled: by nobody\)"):
        await agent_of(given({"city": "Porto"}), output=Stopping).run("go")


# --- the journal ----------------------------------------------------------------------------------------------------


async def test_a_run_tells_its_watchers_and_its_journal_what_was_not_taken() -> None:
    store = MemoryStore()
    agent = agent_of("It is warm.", given(RIGHT), store=store)
    async with agent.start("go", run_id="run") as run:
        kinds = [event.type async for event in run.events()]
        outcome = await run.wait()
    assert outcome.output == PORTO
    assert kinds.index("text") < kinds.index("reply") < kinds.index("answer.rejected") < kinds.index("tool.finished")
    records = await read_records(store, "run")
    (rejected,) = [each for each in records if isinstance(each, AnswerRejected)]
    assert (rejected.turn, rejected.problem) == (1, "")
    assert [each.is_answer for each in records if isinstance(each, ToolFinished)] == [True]
    assert replay(records) == []


async def test_a_run_with_a_form_is_resumed_by_an_agent_that_has_one() -> None:
    store = MemoryStore()
    with pytest.raises(NoFinalAnswer):
        await agent_of(*["no"] * 4, store=store).run("go", run_id="run")
    with pytest.raises(ConfigError, match='run run has to end with "Weather"; resume it with an agent that has output='):
        await agent_of("fine", store=store, output=None).resume("run")
    result = await agent_of(given({"x": 1}), store=store, output=Point).resume("run")
    assert result.output == Point(1), "the program may have changed what it wants"
    started, *_ = records = await read_records(store, "run")
    assert isinstance(started, RunStarted)
    assert started.answer.startswith("Weather ")
    drives = [each.answer for each in records if isinstance(each, DriveStarted)]
    assert drives[0] is None
    assert str(drives[1]).startswith("Point ")


async def test_a_fork_behind_a_wrong_answer_judges_it_again() -> None:
    store = MemoryStore()
    await agent_of("no", given(RIGHT), store=store).run("go", run_id="run")
    await fork_run(store, "run", 1, "early")
    result = await agent_of(given({**RIGHT, "degrees": 5}), store=store).resume("early")
    assert result.output == Weather(city="Porto", degrees=5)
    await fork_run(store, "run", 2, "late")
    assert (await agent_of(store=store).resume("late")).output == PORTO


async def test_a_stopped_run_has_no_output() -> None:
    async with agent_of(calls(("look", {}))).start("go") as run:
        await anyio.sleep(0.5)
        run.cancel(Cancelled("lunch"))
        outcome = await run.wait()
    assert (outcome.kind, outcome.output) == ("stopped", None)


# --- refused before anything begins ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"output": type}, "no answer can be a type: .*; give a Pydantic model, a dataclass, a TypedDict, another type"),
        (
            {"output": object()},
            r"output= is a value of object and not a type; give .* such as list\[int\], or a JSON schema",
        ),
        ({"output": []}, "output= is a value of list and not a type; give a Pydantic model"),
        ({"output": "Weather"}, "output= is a value of str and not a type"),
        ({"output": Output(PORTO)}, "output= is a value of Weather and not a type"),  # type: ignore[arg-type]
        ({"output": lambda: PORTO}, "output= is a function; give a Pydantic model"),
        ({"output": len}, "output= is a function"),
        ({"output": Output(Weather, tool="look")}, 'two tools are named "look"'),
        ({"output": {"type": "nonsense"}}, r"output= is no JSON schema: at \$.type"),
        ({"output": {"$ref": "#/definitions/A"}}, r'put what it refers to under "\$defs"'),
        ({"sampling": Sampling(tool_choice="none")}, "keeps the model from final_answer"),
        ({"sampling": Sampling(tool_choice="look")}, "leaves the model no way to answer"),
        (
            {"sampling": Sampling(tool_choice="lok")},
            'tool_choice="lok" is no tool of this agent; its tools are final_answer',
        ),
        ({"output": None, "sampling": Sampling(tool_choice="required")}, "leaves the model no way to answer"),
        ({"output": Output(Weather, native=True), "sampling": Sampling(tool_choice="required")}, "no way to answer"),
    ],
)
async def test_what_could_not_end_well_is_refused_at_once(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        agent_of(**options)


@pytest.mark.parametrize("corrections", [-1, True, 1.5])
async def test_corrections_are_counted(corrections: Any) -> None:
    with pytest.raises(ConfigError, match="use a whole number, 0 or more"):
        Output(Weather, corrections=corrections)


async def test_the_final_tool_has_a_name_that_the_apis_take() -> None:
    result = await agent_of(calls(("report", RIGHT)), output=Output(Weather, tool="report")).run("go")
    assert result.output == PORTO
    with pytest.raises(ConfigError, match='"my answer" is no name for a tool'):
        Output(Weather, tool="my answer")


async def test_who_holds_no_answer_to_a_schema_is_refused_at_once() -> None:
    model = by_name("deepseek:m", key="k")
    with pytest.raises(ConfigError, match="deepseek holds no answer to a schema; leave native=True out"):
        Agent(model=model, store=MemoryStore(), output=Output(Weather, native=True))
    Agent(model=model, store=MemoryStore(), output=Weather)


async def test_a_model_that_tells_nothing_of_its_settings_is_given_none() -> None:
    class Mine:
        name, reports_cost = "mine", True
        stream = aclose = None

    model: Any = Mine()
    Agent(model=model, store=MemoryStore(), output=Weather)
    for options in ({"sampling": Sampling(seed=1)}, {"output": Output(Weather, native=True)}):
        with pytest.raises(ConfigError, match="mine does not say which settings it has"):
            Agent(model=model, store=MemoryStore(), **options)


# --- settings -------------------------------------------------------------------------------------------------------


async def test_an_agents_settings_reach_each_request_and_the_journal() -> None:
    store = MemoryStore()
    seen: list[Sampling] = []

    def line(request: Request) -> Any:
        seen.append(request.sampling)
        return given(RIGHT) if len(seen) > 1 else "no"

    sampling = Sampling(temperature=0, tool_choice="required", stop="END")
    await agent_of(line, line, store=store, sampling=sampling).run("go", run_id="run")
    assert seen == [sampling, sampling]
    started, *_ = await read_records(store, "run")
    assert isinstance(started, RunStarted)
    assert started.sampling == sampling
    cold = Sampling(temperature=1)
    await agent_of(given(RIGHT), store=store, sampling=cold).resume("run", say="again")
    drives = [each.sampling for each in await read_records(store, "run") if isinstance(each, DriveStarted)]
    assert drives == [None, cold]


async def test_an_agents_settings_go_over_its_models_own() -> None:
    model = by_name("openai:m", key="k", sampling=Sampling(temperature=1, seed=4))
    agent = Agent(model=model, store=MemoryStore(), sampling=Sampling(temperature=0))
    assert agent.sampling == Sampling(temperature=0, seed=4)
    with pytest.raises(ConfigError, match='openai:m has no setting "top_k"'):
        Agent(model=model, store=MemoryStore(), sampling=Sampling(top_k=4))


# --- through the real codecs ----------------------------------------------------------------------------------------

REPLIES: dict[str, tuple[str, Any]] = {
    "openai:m": ("response_format", lambda text: {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}),
    "anthropic:m": (
        "output_config",
        lambda text: {"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"},
    ),
    "openai-responses:m": (
        "text",
        lambda text: {
            "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}],
        },
    ),
    "gemini:gemini-3-pro": (
        "generationConfig",
        lambda text: {"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]},
    ),
}


def events(*data: dict[str, Any]) -> bytes:
    return b"".join(f"event: {each.get('type', '')}\ndata: {json.dumps(each)}\n\n".encode() for each in data)


def streamed(name: str, *pieces: str) -> bytes:
    """A stream of the API that says these pieces of text."""
    match name.partition(":")[0]:
        case "openai":
            deltas = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
            return events(*deltas, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        case "anthropic":
            deltas = [
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": p}} for p in pieces
            ]
            begin = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
            end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
            return events({"type": "message_start", "message": {}}, begin, *deltas, end, {"type": "message_stop"})
        case "openai-responses":
            deltas = [{"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": p} for p in pieces]
            item = {"type": "message", "id": "m", "role": "assistant", "content": []}
            begin = {"type": "response.output_item.added", "output_index": 0, "item": item}
            return events(begin, *deltas, {"type": "response.completed", "response": {"status": "completed"}})
        case _:
            parts = [{"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in pieces]
            return events(*parts, {"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})


@pytest.mark.parametrize("name", list(REPLIES))
async def test_an_answer_may_come_in_pieces(name: str) -> None:
    exchange = FaultyExchange(b"", Answered(streamed(name, "It is", " warm.")), Answered(streamed(name, '{"x":', " 4}")))
    model = by_name(name, key="k", exchange=exchange)
    agent = Agent(model=model, store=MemoryStore(), output=Output(Point, native=True))
    async with agent.start("go") as run:
        said = [event.body.text async for event in run.events() if isinstance(event.body, TextPiece)]
        outcome = await run.wait()
    assert (outcome.output, said) == (Point(4), ["It is", " warm.", '{"x":', " 4}"])


async def test_a_call_of_the_final_tool_may_come_in_pieces() -> None:
    def call(**function: str) -> dict[str, Any]:
        part = {"index": 0, "id": "c1", "type": "function", "function": function}
        return {"choices": [{"index": 0, "delta": {"tool_calls": [part]}}]}

    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    stream = events(call(name="final_answer", arguments='{"x"'), call(arguments=": 4}"), end)
    model = by_name("openai:m", key="k", exchange=FaultyExchange(stream))
    assert (await Agent(model=model, store=MemoryStore(), output=Point).run("go")).output == Point(4)


@pytest.mark.parametrize("kind", ["closed", "reset"])
async def test_half_an_answer_is_asked_for_again(kind: Any) -> None:
    """Also where the half would fit: 4 is not 42."""
    stream = streamed("openai:m", '{"x": 4', "2", "}")
    for at in range(0, len(stream), 17):
        model = by_name("openai:m", key="k", exchange=FaultyExchange(stream, Cut(kind, at)))
        output = Output(Point, native=True)
        agent = Agent(model=model, store=MemoryStore(), output=output, retry=RetryPolicy(base_seconds=0))
        result = await agent.run("go")
        assert (result.output, result.turns) == (Point(42), 1), at
        assert result.spend.calls == (2 if at < stream.index(b"finish_reason") else result.spend.calls)


@pytest.mark.parametrize("name", list(REPLIES))
async def test_each_api_is_asked_for_the_schema_again_with_the_correction(name: str) -> None:
    field, reply = REPLIES[name]
    said = [json.dumps({"city": "Porto"}), json.dumps(RIGHT)]
    answers = [Answered(json.dumps(reply(text)).encode(), headers={"content-type": "application/json"}) for text in said]
    exchange = FaultyExchange(b"", *answers)
    model = by_name(name, key="k", stream=False, exchange=exchange)
    agent = Agent(model=model, store=MemoryStore(), tools=[look], output=Output(Weather, native=True))
    assert (await agent.run("go")).output == PORTO
    first, second = (json.loads(request.body) for request in exchange.requests)
    assert first[field] == second[field]
    assert "degrees" in json.dumps(first[field])
    assert "answer with nothing but JSON like" in exchange.requests[1].body.decode()
