"""Settings of how a model writes: refused by name before anything is sent, and encoded as each API has them."""

from __future__ import annotations

import json
import math
from functools import reduce
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaveto.errors import ConfigError
from heaveto.messages import Sampling, Transcript, UserMessage
from heaveto.models import PROVIDERS, RemoteModel, Request, ToolSpec, by_name, compatible, fallback
from heaveto.models.sampling_rules import put
from heaveto.testing import scripted

LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
KEYS = {"key": "k", "base_url": "https://example.org"}
CHAT = {
    **{name: name for name in ("temperature", "top_p", "top_k", "seed", "stop", "presence_penalty", "frequency_penalty")},
    "max_tokens": "max_tokens",
    "effort": "reasoning_effort",
}
GEMINI = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "stop": "stopSequences",
    "max_tokens": "maxOutputTokens",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "effort": "thinkingConfig.thinkingLevel",
}
WIRE: dict[str, dict[str, str]] = {  # where each API has them, read off its documents and not off our table
    "chat": CHAT,
    "openai": CHAT | {"max_tokens": "max_completion_tokens"},
    "azure": CHAT | {"max_tokens": "max_completion_tokens"},
    "openrouter": CHAT | {"effort": "reasoning.effort"},
    "mistral": CHAT | {"seed": "random_seed"},
    "anthropic": {
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "stop": "stop_sequences",
        "max_tokens": "max_tokens",
        "effort": "output_config.effort",
    },
    "openai-responses": {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_tokens": "max_output_tokens",
        "effort": "reasoning.effort",
    },
    "gemini": {name: f"generationConfig.{path}" for name, path in GEMINI.items()},
}


def model_of(provider: str, name: str = "gemini-3-pro", **settings: Any) -> RemoteModel:
    return by_name(f"{provider}:{name}", **KEYS, **settings)


def body(model: RemoteModel, sampling: Sampling | None = None, **request: Any) -> dict[str, Any]:
    """What a call with these settings sends, the model's own settings among them."""
    request = {"tools": (LOOK,), "sampling": (sampling or Sampling()).over(model.sampling), **request}
    sent: dict[str, Any] = json.loads(model.dialect.encode(Request(transcript=Transcript([UserMessage("hi")]), **request)))
    return sent


def at(data: dict[str, Any], path: str) -> Any:
    return reduce(lambda node, step: node.get(step, {}), path.split("."), data)


# --- what is no setting ---


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"temperature": -1}, "temperature must be 0 or more, not -1"),
        ({"temperature": math.nan}, "temperature must be a number, not nan"),
        ({"temperature": "hot"}, "temperature must be a number, not 'hot'"),
        ({"top_p": True}, "top_p must be a number, not True"),
        ({"top_k": 1.5}, "top_k must be a whole number, not 1.5"),
        ({"max_tokens": 0}, "max_tokens must be 1 or more, not 0"),
        ({"stop": [""]}, "stop must be texts that are not empty, not ('',)"),
        ({"effort": "huge"}, "effort must be one of none, minimal, low, medium, high, xhigh, max, not 'huge'"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls must be True or False, not 1"),
        ({"tool_choice": ""}, 'tool_choice must be "auto", "none", "required" or the name of a tool, not \'\''),
    ],
)
def test_what_no_api_could_take_is_refused_where_it_is_written(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        Sampling(**wrong)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("provider", "sampling", "text"),
    [
        ("openai", Sampling(top_k=5), 'openai:m has no setting "top_k"; its settings are temperature, top_p, seed, stop,'),
        ("openai", Sampling(temperature=2.5), "openai:m does not take temperature=2.5; it takes 0 to 2"),
        ("openai", Sampling(stop=list("abcde")), r"stop=\('a', 'b', 'c', 'd', 'e'\); it takes up to 4 texts"),
        ("anthropic", Sampling(temperature=1.5), "anthropic:m does not take temperature=1.5; it takes 0 to 1"),
        ("anthropic", Sampling(seed=1), 'anthropic:m has no setting "seed"'),
        ("anthropic", Sampling(effort="minimal"), "effort='minimal'; it takes one of low, medium, high, xhigh, max"),
        ("openai-responses", Sampling(stop="x"), 'openai-responses:m has no setting "stop"'),
        ("gemini", Sampling(parallel_tool_calls=False), 'gemini:m has no setting "parallel_tool_calls"'),
        ("gemini", Sampling(top_k=0), "it takes 1 or more"),
        ("deepseek", Sampling(seed=1), 'deepseek:m has no setting "seed"'),
        ("groq", Sampling(presence_penalty=1), 'groq:m has no setting "presence_penalty"'),
        ("mistral", Sampling(temperature=2), "it takes 0 to 1.5"),
        ("perplexity", Sampling(tool_choice="auto"), 'perplexity:m has no setting "tool_choice"'),
        ("ollama", Sampling(tool_choice="auto"), 'ollama:m has no setting "tool_choice"'),
    ],
)
def test_what_the_api_does_not_have_is_refused_by_name(provider: str, sampling: Sampling, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        model_of(provider, "m", sampling=sampling)
    with pytest.raises(ConfigError, match=text):
        model_of(provider, "m").check_sampling(sampling)


def test_gemini_has_an_effort_from_its_third_generation_on() -> None:
    assert at(body(model_of("gemini", "gemini-3-pro"), Sampling(effort="low")), GEMINI_LEVEL) == "low"
    with pytest.raises(ConfigError, match=r"before Gemini 3 it is options=.*thinkingBudget"):
        model_of("gemini", "gemini-2.5-flash", sampling=Sampling(effort="low"))


GEMINI_LEVEL = "generationConfig.thinkingConfig.thinkingLevel"


def test_an_api_of_ones_own_says_what_it_has_or_has_nothing() -> None:
    class Dialect:
        model, provider, streamed, path = "m", "mine", False, "/"

        def headers(self, key: str | None) -> dict[str, str]:
            return {}

    mine: Any = Dialect()
    model = RemoteModel(mine, base_url="https://example.org")
    with pytest.raises(ConfigError, match='mine:m has no setting "seed"; its settings are none'):
        model.check_sampling(Sampling(seed=1))


def test_of_several_models_each_has_to_have_the_setting() -> None:
    both = fallback(model_of("openai", "m"), model_of("anthropic", "m"))
    both.check_sampling(Sampling(temperature=1))
    with pytest.raises(ConfigError, match='anthropic:m has no setting "seed"'):
        both.check_sampling(Sampling(seed=1))
    fallback(scripted(name="one"), model_of("openai", "m")).check_sampling(Sampling(seed=1))


# --- on the wire ---


def settings_of(model: RemoteModel) -> st.SearchStrategy[Sampling]:
    """Settings that the model takes, at random."""
    rules: Any = model.dialect
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for name, rule in rules.sampling.rules.items():
        if rule.choices:
            fields[name] = st.sampled_from(rule.choices)
        elif name == "stop":
            fields[name] = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=int(min(rule.most, 6)))
        elif name in ("temperature", "top_p", "presence_penalty", "frequency_penalty"):
            fields[name] = st.floats(rule.least, rule.most, width=32)
        elif name in ("seed", "top_k", "max_tokens"):
            least = max(rule.least, 16 if name == "max_tokens" else 0)
            fields[name] = st.integers(int(least), int(min(rule.most, 10**6)))
    return st.fixed_dictionaries({}, optional=fields).map(lambda given: Sampling(**given))


MODELS = {provider: model_of(provider) for provider in PROVIDERS}
SETTINGS = {provider: settings_of(model) for provider, model in MODELS.items()}


@given(provider=st.sampled_from(list(PROVIDERS)), data=st.data())
def test_each_setting_comes_where_the_api_has_it_and_nothing_else_changes(provider: str, data: st.DataObject) -> None:
    model = MODELS[provider]
    sampling = data.draw(SETTINGS[provider])
    model.check_sampling(sampling)
    plain, sent = body(model), body(model, sampling)
    for name, value in sampling.given().items():
        path = WIRE.get(provider, CHAT)[name]
        assert at(sent, path) == (list(value) if name == "stop" else value)
        put(plain, tuple(path.split(".")), at(sent, path))
    assert sent == plain


@pytest.mark.parametrize(
    ("provider", "sampling", "fields"),
    [
        ("openai", Sampling(tool_choice="required"), {"tool_choice": "required"}),
        ("openai", Sampling(tool_choice="look"), {"tool_choice": {"type": "function", "function": {"name": "look"}}}),
        ("openai", Sampling(parallel_tool_calls=False), {"parallel_tool_calls": False}),
        ("openai-responses", Sampling(tool_choice="none"), {"tool_choice": "none"}),
        ("openai-responses", Sampling(tool_choice="look"), {"tool_choice": {"type": "function", "name": "look"}}),
        ("openai-responses", Sampling(parallel_tool_calls=True), {"parallel_tool_calls": True}),
        ("anthropic", Sampling(tool_choice="required"), {"tool_choice": {"type": "any"}}),
        ("anthropic", Sampling(tool_choice="look"), {"tool_choice": {"type": "tool", "name": "look"}}),
        (
            "anthropic",
            Sampling(parallel_tool_calls=False),
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        ),
        ("anthropic", Sampling(parallel_tool_calls=False, tool_choice="none"), {"tool_choice": {"type": "none"}}),
        ("gemini", Sampling(tool_choice="required"), {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
        (
            "gemini",
            Sampling(tool_choice="look"),
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}},
        ),
    ],
)
def test_the_use_of_tools_is_said_where_there_are_tools(provider: str, sampling: Sampling, fields: dict[str, Any]) -> None:
    model = model_of(provider)
    assert body(model, sampling) == body(model) | fields
    assert body(model, sampling, tools=()) == body(model, tools=()), "without tools the APIs refuse it"


def test_the_fewest_output_tokens_win() -> None:
    model = model_of("anthropic", "m", sampling=Sampling(max_tokens=500))
    assert body(model)["max_tokens"] == 500
    assert body(model, max_output_tokens=100)["max_tokens"] == 100
    assert body(model, Sampling(max_tokens=50), max_output_tokens=100)["max_tokens"] == 50
    assert (model.largest_output, model_of("openai", "m").largest_output) == (500, None)
    assert body(model_of("openai-responses", "m"), Sampling(max_tokens=3))["max_output_tokens"] == 16


def test_settings_leave_the_options_beside_them_alone() -> None:
    options = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    model = model_of("gemini", options=options)
    sent = body(model, Sampling(effort="low", top_k=3))["generationConfig"]
    assert sent == {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "low"}, "topK": 3}
    assert body(model)["generationConfig"] == options["generationConfig"] == {"thinkingConfig": {"includeThoughts": True}}
    assert body(model_of("openai", "m", options={"temperature": 1}), Sampling(temperature=0))["temperature"] == 0


def test_a_requests_settings_go_over_the_models_own() -> None:
    local = compatible("m", base_url="http://localhost:1/v1", sampling=Sampling(temperature=1, top_k=4))
    assert Sampling(temperature=0, stop="x").over(local.sampling) == Sampling(temperature=0, top_k=4, stop=("x",))
    sent = body(local, Sampling(temperature=0))
    assert (sent["temperature"], sent["top_k"]) == (0, 4)


@given(settings_of(compatible("m", base_url="http://localhost:1/v1")))
@settings(max_examples=30)
def test_settings_are_plain_data(sampling: Sampling) -> None:
    assert msgspec.json.decode(msgspec.json.encode(sampling), type=Sampling) == sampling
