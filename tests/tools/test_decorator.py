"""The `tool` decorator: what becomes of a function, and which functions are refused."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import pydantic
import pytest

from heaveto.causes import Cancelled
from heaveto.errors import BadArguments, ConfigError, ToolError
from heaveto.journal import MemoryStore
from heaveto.runs import Agent
from heaveto.scopes import Scope, check_stop, tasks
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import Call, Check, FunctionTool, Tool, tool
from heaveto.tools.results import MAX_CHARS, cut_middle, to_text

anyio_only = pytest.mark.anyio


@tool(effect="read")
async def word_count(path: str, least: int = 1) -> int:
    """Count the words of a text file.

    Words are what spaces part.

    Args:
        path: File, relative to
            the folder.
        least: The shortest word that counts.

    Returns:
        How many.
    """
    return len([word for word in path.split() if len(word) >= least])


@tool
def greet(name: str, call: Call) -> str:
    """Say hello."""
    return f"hello {name} in turn {call.turn}"


class Shop:
    """Has a method that is a tool."""

    def __init__(self, stock: int) -> None:
        self.stock = stock

    @tool(effect="read")
    def count(self, less: int = 0) -> int:
        """Count the stock."""
        return self.stock - less


@anyio_only
async def test_it_stays_the_function_that_it_was() -> None:
    """Called directly it is the function, name, docstring and signature included."""
    assert await word_count("a bb", least=2) == 1
    assert greet("Ada", Call(turn=3)) == "hello Ada in turn 3"
    assert word_count.__name__ == "word_count"
    assert (word_count.__doc__ or "").startswith("Count the words")
    assert list(inspect.signature(word_count).parameters) == ["path", "least"]
    assert repr(word_count) == "<tool word_count (read)>"


def test_schema_and_description() -> None:
    """They come from the hints and the docstring, without pydantic's titles."""
    assert word_count.description == "Count the words of a text file.\n\nWords are what spaces part."
    assert word_count.schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "File, relative to the folder."},
            "least": {"type": "integer", "description": "The shortest word that counts.", "default": 1},
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def test_options() -> None:
    """No effect means write; what may write runs alone unless it says otherwise."""

    @tool(effect="idempotent", name="put-it", approval=True, alone=False, seconds=5)
    def put(it: str) -> None:
        """Put it."""

    assert (greet.effect, greet.alone, greet.approval, greet.seconds) == ("write", True, False, None)
    assert (word_count.effect, word_count.alone) == ("read", False)
    assert (put.name, put.effect, put.alone, put.approval, put.seconds) == ("put-it", "idempotent", False, True, 5)
    as_protocol: Tool = put
    assert as_protocol.name == "put-it"


@anyio_only
async def test_call_is_injected_and_not_shown() -> None:
    """The model sees no parameter of the type Call."""
    assert list(greet.schema["properties"]) == ["name"]
    assert await greet.run(Call(turn=7), greet.parse('{"name": "Ada"}')) == "hello Ada in turn 7"
    with pytest.raises(BadArguments, match='unknown field "call"'):
        greet.parse('{"name": "Ada", "call": {}}')


@anyio_only
async def test_a_method_is_the_tool_of_its_object() -> None:
    """Two objects, two tools; the class's own is refused with what right looks like."""
    few, many = Shop(3), Shop(30)
    assert many.count(1) == 29
    assert await few.count.run(Call(), few.count.parse('{"less": 1}')) == "2"
    assert list(few.count.schema["properties"]) == ["less"]
    with pytest.raises(ConfigError, match=r"take it from one: Thing\(\).count"):
        Shop.count.schema  # noqa: B018


def test_local_types_are_found() -> None:
    """A type that only the function around the tool knows, also from a class body."""

    class Color(Enum):
        RED = "red"
        BLUE = "blue"

    class Painter:
        @tool
        def paint(self, color: Color) -> str:
            """Paint."""
            return color.name

    assert Painter().paint.parse('{"color": "blue"}') == {"color": Color.BLUE}


def test_forward_references_are_tried_again() -> None:
    """A type that is defined after the tool, in the module or the function around it, is found at the first use."""

    @tool
    def store(item: Later, other: AtTheEnd) -> None:
        """Store it."""

    with pytest.raises(ConfigError, match="cannot be resolved"):
        store.schema  # noqa: B018

    @dataclasses.dataclass
    class Later:
        size: int

    arguments = store.parse('{"item": {"size": 2}, "other": {"x": 1}}')
    assert arguments == {"item": Later(2), "other": AtTheEnd(x=1)}


class AtTheEnd(pydantic.BaseModel):
    """Defined after the test that needs it."""

    x: int


def no_docstring(path: str) -> None: ...


def no_type(path) -> None:  # type: ignore[no-untyped-def]
    """Do it."""


def many_values(*paths: str) -> None:
    """Do it."""


def many_names(**paths: str) -> None:
    """Do it."""


def by_position(path: str, /) -> None:
    """Do it."""


def odd_type(lock: threading.Thread) -> None:
    """Do it."""


def wrong_docs(path: str) -> None:
    """Do it.

    Args:
        pth: File.
    """


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (no_docstring, "tool no_docstring has no docstring; give it one"),
        (no_type, "parameter path of tool no_type has no type; give it one, as in path: str"),
        (many_values, r"tool many_values takes \*paths: .*str.*, which has no schema; name each parameter"),
        (many_names, r"tool many_names takes \*\*paths"),
        (by_position, "parameter path of tool by_position cannot be passed by name; leave the / out"),
        (odd_type, "tool odd_type has a parameter whose type has no JSON schema"),
        (wrong_docs, "the docstring of tool wrong_docs describes pth, which is no parameter of it"),
    ],
)
def test_bad_functions_are_refused_at_the_schema(function: Any, words: str) -> None:
    """Not when they are decorated: hints may come later."""
    made = tool(function)
    with pytest.raises(ConfigError, match=words):
        made.schema  # noqa: B018


async def a_generator() -> AsyncIterator[str]:
    """Yield."""
    yield ""


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tool(effect="reads")(no_type), 'the effect "reads"; use read, idempotent or write'),
        (lambda: tool(name="two words")(no_type), '"two words" is no name for a tool'),
        (lambda: tool(seconds=0)(no_type), "a limit of 0 seconds; use more than 0"),
        (lambda: tool(seconds=float("nan"))(no_type), "a limit of nan seconds"),
        (lambda: tool(a_generator), "tool a_generator is a generator; return one value"),
        (lambda: tool(Shop), "is no function; decorate a function"),
    ],
)
def test_bad_options_are_refused_at_once(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


class Point(pydantic.BaseModel):
    x: int
    at: Path = Path("a")


@dataclasses.dataclass
class Pair:
    left: Point
    right: int | None = None


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"


class Unprintable:
    def __repr__(self) -> str:
        raise KeyError("name")


class Colour(str, Enum):  # noqa: UP042
    RED = "red"


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "done"),
        (3, "3"),
        (True, "true"),
        ({"a": [1, 2.5]}, '{"a":[1,2.5]}'),
        (Point(x=1), '{"x":1,"at":"a"}'),
        (Pair(Point(x=1)), '{"left":{"x":1,"at":"a"},"right":null}'),
        ([Path("a/b")], '["a/b"]'),
        ([Opaque()], '["<opaque>"]'),
        ({(1, 2): 3}, '{"(1, 2)":3}'),
        (LOOP, "[[...]]"),
        ("half \ud83d", "half \ufffd"),
        (Colour.RED, "red"),
        (Unprintable(), "done, with a value that has no text: Unprintable"),
        ([Unprintable()], "done, with a value that has no text: list"),
        ([10**5000], "done, with a value that has no text: list"),
        (["\ud83d"], "['\\ud83d']"),
    ],
)
def test_results_as_text(value: Any, text: str) -> None:
    """Whatever a tool returns is a text, since its effect has been had."""
    assert to_text(value) == text


def test_long_results_lose_their_middle() -> None:
    """Head and tail are kept, and a line says what is missing."""
    text = to_text("h" * MAX_CHARS + "t" * 10)
    assert text.startswith("hhh")
    assert text.endswith("\n" + "h" * (MAX_CHARS * 2 // 5 - 10) + "t" * 10)
    assert "\n... 10 of 50010 characters left out ...\n" in text
    assert cut_middle("short", 5) == "short"


@anyio_only
async def test_sync_and_wrapped_functions_run() -> None:
    """A sync one runs in a thread of its own; one that hands out an awaitable is awaited."""
    threads = []

    @tool
    def where() -> None:
        """Note the thread."""
        threads.append(threading.current_thread())

    def sync_face(function: Any) -> Any:
        @functools.wraps(function)
        def inner(**values: Any) -> Any:
            return function(**values)

        return inner

    @tool
    @sync_face
    async def later(n: int) -> int:
        """Wait a little."""
        await anyio.lowlevel.checkpoint()
        return n

    assert await where.run(Call(), {}) == "done"
    assert threads[0].name == "heaveto:where"
    assert await later.run(Call(), later.parse('{"n": 2}')) == "2"


@anyio_only
@pytest.mark.parametrize("error", [ToolError("no"), ValueError("bug"), KeyError("x")])
async def test_exceptions_come_out_as_they_are(error: Exception) -> None:
    """The loop makes results of them, not the tool."""

    @tool
    def fail() -> None:
        """Fail."""
        raise error

    with pytest.raises(type(error)) as caught:
        await fail.run(Call(), {})
    assert caught.value is error


@anyio_only
async def test_plan_and_check() -> None:
    """Both sync or async; without them there are no facts and no verdict."""

    async def plan(call: Call, arguments: Any) -> dict[str, Any]:
        return {"was": arguments["n"]}

    def check(call: Call, arguments: Any) -> Check | None:
        return Check("done", f"saw {call.facts['was']}")

    @tool(plan=plan, check=check)
    def put(n: int) -> None:
        """Put."""

    facts = await put.plan(Call(), {"n": 1})
    assert facts == {"was": 1}
    assert await put.check(Call(facts=facts), {"n": 1}) == Check("done", "saw 1")
    assert await greet.plan(Call(), {}) == {}
    assert await greet.check(Call(), {}) is None


@anyio_only
async def test_a_stop_reaches_a_sync_tool() -> None:
    """It sees the cause in its thread, and the thread is gone when the stop comes out."""
    started, threads = threading.Event(), []

    @tool(effect="read")
    def dig() -> None:
        """Dig until stopped."""
        threads.append(threading.current_thread())
        started.set()
        while True:
            check_stop()

    async def dig_until_stopped() -> None:
        with Scope() as scope:
            async with tasks() as group:
                group.start_soon(dig.run, Call(), {})
                await anyio.to_thread.run_sync(started.wait)
                scope.cancel(Cancelled("enough"))

    with pytest.raises(Cancelled, match="enough"):
        await dig_until_stopped()
    threads[0].join(5)
    assert not threads[0].is_alive()


def test_metadata_of_annotated_counts() -> None:
    """Constraints and descriptions of pydantic's Field are in the schema, and the user's description wins."""

    @tool
    def take(
        n: Annotated[int, pydantic.Field(ge=2, description="From two.")], mode: Literal["a", "b"] = "b", schema: str = ""
    ) -> None:
        """Take.

        Args:
            n: Another text.
            mode: How.
            schema: A name that a pydantic model could not have.
        """

    properties = take.schema["properties"]
    assert properties["n"] == {"type": "integer", "minimum": 2, "description": "From two."}
    assert properties["mode"] == {"type": "string", "enum": ["a", "b"], "default": "b", "description": "How."}
    assert take.parse('{"n": 2, "schema": "x"}') == {"n": 2, "schema": "x"}


def test_importing_and_decorating_is_light() -> None:
    """pydantic, griffe and pathspec are loaded by the first schema, not by the import or the decorator."""
    code = (
        "import sys, heaveto.tools as t\n"
        "@t.tool\n"
        "def f(a: int) -> int:\n    'Do.'\n    return a\n"
        "heavy = {'pydantic', 'griffe', 'pathspec', 'httpx2'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "f.schema\n"
        "assert 'pydantic' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_function_tool_is_what_the_decorator_makes() -> None:
    assert isinstance(greet, FunctionTool)


@anyio_only
@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (None, "returned NoneType, and not a mapping"),
        ("noted", "returned str, and not a mapping"),
        ({"path": Path("a")}, "returned what is no plain data: .*PosixPath"),
        ({"it": object()}, "returned what is no plain data: .*object"),
    ],
)
async def test_a_plan_that_the_journal_cannot_keep_is_an_error_of_the_tool(facts: Any, words: str) -> None:
    @tool(effect="write", plan=lambda call, arguments: facts)
    async def send(to: str) -> str:
        """Send."""
        raise AssertionError("it does not begin")

    agent = Agent(model=scripted(calls(("send", {"to": "all"})), "Fine."), tools=[send], store=MemoryStore())
    result = await agent.run("go")
    assert re.search(
        f"send failed with an internal error .*the plan of send {words}", str(result.report.messages[2].content)
    )
