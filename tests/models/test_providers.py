"""Models by name, their keys and addresses, and prices from the table."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest

from heaveto.errors import ConfigError
from heaveto.messages import Transcript, Usage, UserMessage
from heaveto.models import (
    PROVIDERS,
    Price,
    Request,
    anthropic,
    by_name,
    compatible,
    gemini,
    openai,
    openai_responses,
    openrouter,
)
from heaveto.models.prices import listed_cost, set_price


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in PROVIDERS.values():
        for variable in (row.key_variable, row.other_key_variable, row.base_url_variable):
            if variable:
                monkeypatch.delenv(variable, raising=False)


def body(model: Any) -> Any:
    return json.loads(model.dialect.encode(Request(transcript=Transcript([UserMessage("x")]), max_output_tokens=5)))


def test_openrouter_is_asked_for_usage_and_tells_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "k")
    model = openrouter("anthropic/claude-sonnet-4.5")
    assert (model.name, model.reports_cost) == ("openrouter:anthropic/claude-sonnet-4.5", True)
    assert model.url == "https://openrouter.ai/api/v1/chat/completions"
    assert body(model)["usage"] == {"include": True}
    assert body(model)["max_tokens"] == 5


def test_openai_has_its_own_field_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1/")
    model = openai("gpt-4o-mini", stream=False)
    assert model.url == "http://localhost:9/v1/chat/completions"
    assert body(model) == {
        "model": "gpt-4o-mini",
        "messages": [{"role": "user", "content": "x"}],
        "stream": False,
        "max_completion_tokens": 5,
    }


def test_anthropic_has_its_own_dialect_address_and_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    for model in (anthropic("claude-sonnet-4-5"), by_name("anthropic:claude-sonnet-4-5")):
        assert (model.name, model.url) == ("anthropic:claude-sonnet-4-5", "https://api.anthropic.com/v1/messages")
        headers = model.http_request(b"").headers
        assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-1", "2023-06-01")
        assert "authorization" not in headers
        assert body(model)["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
        assert "stream_options" not in body(model)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://localhost:9/")
    plain = anthropic("m", key="k", cache=False, stream=False, options={"temperature": 0.5})
    assert plain.url == "http://localhost:9/v1/messages"
    assert body(plain) == {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        "max_tokens": 5,
        "temperature": 0.5,
        "stream": False,
    }


def test_openai_responses_is_another_path_to_the_same_key_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    for model in (openai_responses("gpt-5"), by_name("openai-responses:gpt-5")):
        assert (model.name, model.url) == ("openai-responses:gpt-5", "https://api.openai.com/v1/responses")
        assert model.http_request(b"").headers["authorization"] == "Bearer sk-1"
        assert model.reports_cost
    assert openai("gpt-5").url.endswith("/chat/completions")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    plain = openai_responses("gpt-4.1", stream=False, options={"temperature": 0.5})
    assert plain.url == "http://localhost:9/v1/responses"
    assert body(plain) == {
        "model": "gpt-4.1",
        "input": [{"role": "user", "content": "x"}],
        "store": False,
        "temperature": 0.5,
        "stream": False,
        "max_output_tokens": 16,
    }


def test_geminis_key_is_in_a_header_and_never_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "google")
    assert gemini("m").http_request(b"").headers["x-goog-api-key"] == "google"
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-1")
    for model in (gemini("gemini-2.5-flash"), by_name("gemini:gemini-2.5-flash")):
        request = model.http_request(b"")
        assert request.headers["x-goog-api-key"] == "AIza-1"
        assert "AIza-1" not in request.url + repr(model)
        assert model.url == (
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
        )
        assert model.reports_cost
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://localhost:9/?tenant=1")
    assert gemini("tunedModels/my own?", stream=False).url == (
        "http://localhost:9/v1beta/tunedModels/my%20own%3F:generateContent?tenant=1"
    )
    assert gemini("m").url == "http://localhost:9/v1beta/models/m:streamGenerateContent?alt=sse&tenant=1"
    assert body(gemini("m", options={"generationConfig": {"temperature": 0}})) == {
        "contents": [{"role": "user", "parts": [{"text": "x"}]}],
        "generationConfig": {"temperature": 0, "maxOutputTokens": 5},
    }


def test_what_is_written_to_a_cache_and_read_from_it_has_its_own_price() -> None:
    usage = Usage(input_tokens=100_000, cached_input_tokens=30_000, cache_write_tokens=20_000, output_tokens=10_000)
    cost = Decimal("0.15") + Decimal("0.009") + Decimal("0.075") + Decimal("0.15")
    assert listed_cost(usage, "claude-sonnet-4-5", "anthropic") == cost
    price = set_price((3, 15, "0.30", "3.75"))
    assert price is not None
    assert price.cost(usage) == cost
    assert anthropic("claude-sonnet-4-5", key="k").reports_cost


@pytest.mark.parametrize(
    "row", [row for row in PROVIDERS.values() if row.key_variable and row.key_needed], ids=lambda r: r.name
)
def test_a_missing_key_names_its_variable(row: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if not row.base_url:
        monkeypatch.setenv(row.base_url_variable, "https://h")
    with pytest.raises(ConfigError, match=f"no key for {row.name}; set {row.key_variable}, or pass key="):
        by_name(f"{row.name}:m")
    assert by_name(f"{row.name}:m", key="k").name == f"{row.name}:m"


@pytest.mark.parametrize("name", ["", "gpt-4o", "openai:", ":m"])
def test_a_name_without_provider_or_model_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match='name it as "provider:model"'):
        by_name(name)


def test_an_unknown_provider_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match='no provider named "nobody"; the providers are openrouter, openai, '):
        by_name("nobody:m")


def test_a_local_server_needs_no_key() -> None:
    assert by_name("ollama:qwen3:8b").name == "ollama:qwen3:8b"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("localhost:8000", "has no scheme or host"),
        ("ftp://x/v1", "has no scheme or host"),
        ("", "has no scheme or host"),
        ("http://[::1", "cannot be read"),
        ("http://x:port/", "cannot be read"),
        ("http://models.example/v1", "would send the key unencrypted"),
        ("https://me:pass@models.example/v1", "has credentials in it"),
        ("https://models.example/ü", "no header can hold"),
    ],
)
def test_an_address_that_is_not_safe_or_not_one_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compatible("m", base_url=url)
    assert problem in str(caught.value)
    assert "pass@" not in str(caught.value)


def test_plain_http_is_for_this_machine_unless_allowed() -> None:
    for url in ("http://localhost:1/v1", "http://127.0.0.2:1/v1", "http://[::1]:1/v1"):
        compatible("m", base_url=url)
    assert compatible("m", base_url="http://10.0.0.1/v1", allow_http=True).provider == "10.0.0.1"


def test_a_query_in_the_address_stays_behind_the_path() -> None:
    model = compatible("m", base_url="https://x.example/openai/v1?api-version=1")
    assert model.url == "https://x.example/openai/v1/chat/completions?api-version=1"
    assert repr(model) == "<RemoteModel x.example:m at https://x.example/openai/v1/chat/completions>"


def test_no_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="the model has no name"):
        compatible("", base_url="https://x.example")


def test_a_price_is_what_people_write() -> None:
    usage = Usage(input_tokens=1_000_000, cached_input_tokens=400_000, output_tokens=10_000)
    assert set_price((3, "$15", "0.30")) == Price(Decimal(3), Decimal(15), Decimal("0.30"))
    assert Price(Decimal(3), Decimal(15)).cost(usage) == Decimal("3.15")
    assert Price(Decimal(3), Decimal(15), Decimal("0.30")).cost(usage) == Decimal("2.07")
    for wrong in ((3,), (3, -1), (3, "x"), (1, 2, 3, 4, 5)):
        with pytest.raises(ConfigError, match="price must be dollars for a million tokens"):
            set_price(wrong)


def test_the_table_knows_common_models_and_says_so_of_others() -> None:
    usage = Usage(input_tokens=1000, output_tokens=100, cached_input_tokens=10)
    cost = listed_cost(usage, "gpt-4o-mini", "openai")
    assert cost is not None
    assert cost > 0
    assert listed_cost(usage, "no-such-model", "openai") is None
    assert listed_cost(usage, "m", "no-such-provider") is None
    assert openai("gpt-4o-mini", key="k").reports_cost
    assert not compatible("m", base_url="https://x.example").reports_cost


def test_importing_and_making_a_model_loads_no_http_client_and_no_prices() -> None:
    code = "import sys; from heaveto.models import by_name; by_name('ollama:x')\n"
    code += "print([m for m in ('httpx2', 'pydantic', 'genai_prices') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_azure_has_an_address_of_ones_own_and_its_key_in_a_header_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    with pytest.raises(ConfigError, match="no address for azure; set AZURE_OPENAI_ENDPOINT, or pass base_url="):
        by_name("azure:my-deployment")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com/")
    model = by_name("azure:my-deployment")
    assert model.url == "https://mine.openai.azure.com/openai/v1/chat/completions"
    headers = model.http_request(b"").headers
    assert headers["api-key"] == "k"
    assert "authorization" not in headers
    assert body(model)["max_completion_tokens"] == 5
    assert not model.reports_cost
    whole = by_name("azure:d", base_url="https://mine.openai.azure.com/openai/v1?api-version=preview")
    assert whole.url == "https://mine.openai.azure.com/openai/v1/chat/completions?api-version=preview"
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://[")
    with pytest.raises(ConfigError, match="base_url cannot be read"):
        by_name("azure:d")


def test_perplexity_reports_usage_and_cost_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PPLX_API_KEY", "k")
    model = by_name("perplexity:sonar")
    assert (model.url, model.reports_cost) == ("https://api.perplexity.ai/chat/completions", True)
    assert "stream_options" not in body(model)


@pytest.mark.parametrize(
    ("name", "url", "key", "address"),
    [
        ("vllm", "http://localhost:8000/v1/chat/completions", "VLLM_API_KEY", "VLLM_BASE_URL"),
        ("llamacpp", "http://localhost:8080/v1/chat/completions", "LLAMA_API_KEY", "LLAMACPP_BASE_URL"),
    ],
)
def test_a_server_of_ones_own_needs_no_key_and_takes_one(
    name: str, url: str, key: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = by_name(f"{name}:m")
    assert (model.url, "authorization" in model.http_request(b"").headers) == (url, False)
    monkeypatch.setenv(key, "secret")
    monkeypatch.setenv(address, "https://h/v1")
    model = by_name(f"{name}:m")
    assert (model.url, model.http_request(b"").headers["authorization"]) == (
        "https://h/v1/chat/completions",
        "Bearer secret",
    )
