"""A wrong thing in the place of an agent's argument is refused when the agent is made, with what belongs there."""

from __future__ import annotations

from typing import Any

import pytest

from heaveto import Agent, Budget, Limits, MemoryStore, RetryPolicy, tool
from heaveto.errors import ConfigError
from heaveto.testing import scripted


def word_count(path: str) -> int:
    """Count words."""
    return len(path)


WRONG: list[tuple[str, Any, str]] = [
    (
        "model",
        "openai:gpt-5",
        "model='openai:gpt-5' is no model; make one of its name: heaveto.models.by_name('openai:gpt-5')",
    ),
    ("model", 5, "model=5 is no model; make one, such as"),
    ("model", None, "model=None is no model"),
    ("tools", [word_count], "word_count is a plain function: write @tool above its def"),
    ("tools", [len], "len is a plain function"),
    ("tools", ["word_count"], "'word_count' is no tool: write @tool above a function's def"),
    ("tools", word_count, "is no list of tools; give one, such as tools=[word_count]"),
    ("tools", tool(effect="read")(word_count), "is no list of tools; give one"),
    ("tools", "word_count", "is no list of tools; give one"),
    ("tools", None, "is no list of tools; give one"),
    ("sampling", {"temperature": 1}, "is no Sampling; give Sampling(temperature=0.2)"),
    ("system", None, "system=None is no text"),
    ("limits", {"usd": 1}, "limits={'usd': 1} is no Limits; give Limits(turns=20, usd=\"0.50\")"),
    ("limits", Budget(turns=1), "is no Limits"),
    ("budget", Limits(turns=1), "is no Budget; give Budget("),
    ("store", 3, "store=3 is no store; give a file, postgresql://"),
    ("store", MemoryStore, "is no store"),
    ("folder", 3, "folder=3 is no path"),
    ("slots", 3, "slots=3 is no Slots; give Slots(4)"),
    ("retry", 3, "retry=3 is no RetryPolicy; give RetryPolicy(attempts=4)"),
    ("approve", True, "approve=True is no function"),
    ("permit", "ask", "permit='ask' is no function; give Permissions(\"ask\")"),
    ("resolve", "done", "resolve='done' is no function"),
    ("on_unknown", "ask", 'it is "wait" or "tell_model"'),
    ("grace_seconds", "7", "grace_seconds='7' is no number of seconds; give 0 or more"),
    ("grace_seconds", -1, "is no number of seconds"),
    ("grace_seconds", None, "is no number of seconds"),
    ("sandbox", True, "sandbox=True is no sandbox; give find_sandbox()"),
]


@pytest.mark.parametrize(("name", "value", "says"), WRONG, ids=[f"{name}-{value!r:.20}" for name, value, _ in WRONG])
def test_it_is_named_with_what_belongs_there(name: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Agent(**{"model": scripted("x"), "store": MemoryStore(), name: value})
    assert says in str(refused.value)


@pytest.mark.anyio
async def test_new_limits_of_a_resume_that_are_none_are_named() -> None:
    with pytest.raises(ConfigError, match="is no Limits; give Limits"):
        await Agent(model=scripted("x"), store=MemoryStore()).resume("r", limits={"usd": 1})  # type: ignore[arg-type]


def test_what_was_given_is_shown_in_part() -> None:
    with pytest.raises(ConfigError) as refused:
        Agent(model=scripted("x"), limits="x" * 10_000)  # type: ignore[arg-type]
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name", ["turns", "tokens", "seconds"])
@pytest.mark.parametrize("value", ["3", True, -1, float("nan"), [1]])
def test_a_limit_that_is_none_is_named(name: str, value: Any) -> None:
    for kind in (Limits, Budget):
        with pytest.raises(ValueError, match=f"^{name} must be 0 or more, not "):
            kind(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attempts", "3"), ("attempts", True), ("attempts", None), ("base_seconds", "1"), ("base_seconds", None),
        ("cap_seconds", None), ("attempt_seconds", "9"), ("max_wait_seconds", None), ("max_wait_seconds", "9"),
    ],
)  # fmt: skip
def test_a_policy_of_retries_that_is_none_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{name} must be "):
        RetryPolicy(**{name: value})
