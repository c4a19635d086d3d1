"""The providers as a table, and the functions that make a model of one of them.

Another provider is another row; another dialect is another package and a line in `_dialect`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from ..errors import ConfigError
from ..messages import Sampling
from ..scopes import RateLimit
from .answer_schemas import StructuredOutput
from .anthropic_messages import MessagesDialect
from .chat import ANY_SERVER, EFFORTS, SAMPLING, TAKES, ChatDialect
from .client import RemoteModel
from .dialect import Dialect
from .exchange import Exchange, check_header, is_loopback, shown_address
from .gemini_content import GeminiDialect
from .inputs import NOTHING, Takes
from .limits import CallLimits
from .prices import Price, set_price
from .responses import ResponsesDialect
from .sampling_rules import Rule, SamplingRules

__all__ = [
    "PROVIDERS",
    "Provider",
    "anthropic",
    "by_name",
    "compatible",
    "gemini",
    "openai",
    "openai_responses",
    "openrouter",
]


NO_FILES: frozenset[str] = frozenset()
TOP_K = Rule(("top_k",), 0)


def _effort(*choices: str) -> Rule:
    return Rule(("reasoning_effort",), choices=choices)


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table.

    Attributes:
        key_variable: The environment variable with the key; empty where there is none.
        other_key_variable: One that is asked where the first is not set.
        key_needed: Whether it answers nobody without a key.
        key_header: Where the key goes; empty for where the dialect sends it.
        base_url_variable: The one that replaces `base_url`; empty where there is none.
        base_url_path: What is added to an address that has no path of its own.
        options: Fields that every request has, and `stream_options` those that a streamed one has besides.
        reports_cost: Whether the API tells what a call cost.
        spend_path: Where it tells that afterwards of a call that was cut, up to the reply's id.
        price_provider: The provider's name in the price table; None for the same one, empty where the table has none.
        dialect: What it speaks: "chat" for chat completions, "messages" for Anthropic's Messages, "responses" for
            OpenAI's Responses, "gemini" for Gemini's generateContent.
        takes: Which images and files a provider of chat completions takes, and `sampling` which settings it has.
        structured: Whether a provider of chat completions holds an answer to a schema.
    """

    name: str
    base_url: str
    key_variable: str = ""
    other_key_variable: str = ""
    key_needed: bool = True
    key_header: str = ""
    base_url_variable: str = ""
    base_url_path: str = ""
    max_tokens_field: str = "max_tokens"
    options: dict[str, Any] = {}
    stream_options: dict[str, Any] = msgspec.field(default_factory=lambda: {"stream_options": {"include_usage": True}})
    reports_cost: bool = False
    spend_path: str = ""
    price_provider: str | None = None
    dialect: Literal["chat", "messages", "responses", "gemini"] = "chat"
    takes: Takes = TAKES
    sampling: SamplingRules = SAMPLING
    structured: StructuredOutput = "none"


PROVIDERS: dict[str, Provider] = {
    row.name: row
    for row in (
        Provider(
            name="openrouter",
            base_url="https://openrouter.ai/api/v1",
            key_variable="OPENROUTER_API_KEY",
            options={"usage": {"include": True}},
            reports_cost=True,
            takes=Takes(),
            spend_path="/generation?id=",
            sampling=SAMPLING.but(top_k=TOP_K, effort=Rule(("reasoning", "effort"), choices=EFFORTS)),
            structured="beside tools",
        ),
        Provider(
            name="openai",
            base_url="https://api.openai.com/v1",
            key_variable="OPENAI_API_KEY",
            base_url_variable="OPENAI_BASE_URL",
            max_tokens_field="max_completion_tokens",
            structured="beside tools",
        ),
        Provider(
            name="anthropic",
            base_url="https://api.anthropic.com",
            key_variable="ANTHROPIC_API_KEY",
            base_url_variable="ANTHROPIC_BASE_URL",
            stream_options={},  # it reports usage unasked
            dialect="messages",
        ),
        Provider(
            name="openai-responses",
            base_url="https://api.openai.com/v1",
            key_variable="OPENAI_API_KEY",
            base_url_variable="OPENAI_BASE_URL",
            stream_options={},  # it reports usage unasked
            price_provider="openai",
            dialect="responses",
        ),
        Provider(
            name="gemini",
            base_url="https://generativelanguage.googleapis.com",
            key_variable="GEMINI_API_KEY",
            other_key_variable="GOOGLE_API_KEY",
            base_url_variable="GOOGLE_GEMINI_BASE_URL",
            stream_options={},  # it reports usage unasked
            price_provider="google",
            dialect="gemini",
        ),
        Provider(
            name="azure",  # whose models are named by their deployments, which no price table knows
            base_url="",
            key_variable="AZURE_OPENAI_API_KEY",
            key_header="api-key",
            base_url_variable="AZURE_OPENAI_ENDPOINT",
            base_url_path="/openai/v1",
            max_tokens_field="max_completion_tokens",
            price_provider="",
            structured="beside tools",
        ),
        Provider(
            name="deepseek",
            base_url="https://api.deepseek.com/v1",
            key_variable="DEEPSEEK_API_KEY",
            takes=NOTHING,
            sampling=SAMPLING.but(
                "seed", "parallel_tool_calls", stop=Rule(("stop",), most=16), effort=_effort("low", "high", "max")
            ),
        ),
        Provider(
            name="groq",
            base_url="https://api.groq.com/openai/v1",
            key_variable="GROQ_API_KEY",
            takes=Takes(files=NO_FILES, image_bytes=3_000_000),
            sampling=SAMPLING.but("presence_penalty", "frequency_penalty", effort=_effort("none", "low", "medium", "high")),
            structured="alone, not streamed",
        ),
        Provider(
            name="mistral",
            base_url="https://api.mistral.ai/v1",
            key_variable="MISTRAL_API_KEY",
            stream_options={},  # it refuses fields that it does not know, and reports usage unasked
            takes=Takes(files=NO_FILES, image_bytes=10_000_000),
            sampling=SAMPLING.but(
                "effort", temperature=Rule(("temperature",), 0, 1.5), seed=Rule(("random_seed",), 0), stop=Rule(("stop",))
            ),
            structured="alone",
        ),
        Provider(
            name="perplexity",
            base_url="https://api.perplexity.ai",
            key_variable="PERPLEXITY_API_KEY",
            other_key_variable="PPLX_API_KEY",
            stream_options={},  # it reports usage unasked, with the cost
            reports_cost=True,
            takes=Takes(files=NO_FILES),
            sampling=SAMPLING.but(
                *("seed", "stop", "parallel_tool_calls", "tool_choice"),  # it has no tools
                top_k=Rule(("top_k",), 0, 2048),
                effort=_effort("minimal", "low", "medium", "high"),
            ),
            structured="alone",
        ),
        Provider(
            name="together",
            base_url="https://api.together.xyz/v1",
            key_variable="TOGETHER_API_KEY",
            takes=Takes(files=NO_FILES),
            sampling=SAMPLING.but("parallel_tool_calls", top_k=TOP_K, effort=_effort("low", "medium", "high")),
            structured="alone",
        ),
        Provider(
            name="xai",
            base_url="https://api.x.ai/v1",
            key_variable="XAI_API_KEY",
            price_provider="x-ai",
            takes=Takes(images=frozenset({"image/jpeg", "image/png"}), files=NO_FILES),
            sampling=SAMPLING.but(effort=_effort("none", "low", "medium", "high")),
            structured="beside tools",
        ),
        Provider(
            name="ollama",
            base_url="http://localhost:11434/v1",
            base_url_variable="OLLAMA_BASE_URL",
            price_provider="",
            takes=Takes(files=NO_FILES, image_urls=False),
            sampling=SAMPLING.but("parallel_tool_calls", "tool_choice", stop=Rule(("stop",))),
            structured="alone",
        ),
        Provider(
            name="vllm",
            base_url="http://localhost:8000/v1",
            key_variable="VLLM_API_KEY",
            key_needed=False,
            base_url_variable="VLLM_BASE_URL",
            price_provider="",
            takes=Takes(files=NO_FILES),
            sampling=ANY_SERVER,
            structured="alone",
        ),
        Provider(
            name="llamacpp",
            base_url="http://localhost:8080/v1",
            key_variable="LLAMA_API_KEY",
            key_needed=False,
            base_url_variable="LLAMACPP_BASE_URL",
            price_provider="",
            takes=Takes(files=NO_FILES),
            sampling=ANY_SERVER.but("effort"),
            structured="alone",
        ),
    )
}


def openrouter(model: str, *, key: str | None = None, **settings: Any) -> RemoteModel:
    """A model at OpenRouter, such as `openrouter("anthropic/claude-sonnet-4.5")`.

    Args:
        key: The API key; `OPENROUTER_API_KEY` by default.
        settings: As for `compatible`.

    Raises:
        ConfigError: When there is no key, or a setting is wrong.
    """
    return _model_of(PROVIDERS["openrouter"], model, key=key, **settings)


def openai(model: str, *, key: str | None = None, **settings: Any) -> RemoteModel:
    """A model at OpenAI, or wherever `OPENAI_BASE_URL` points.

    Args:
        key: The API key; `OPENAI_API_KEY` by default.
        settings: As for `compatible`.

    Raises:
        ConfigError: When there is no key, or a setting is wrong.
    """
    return _model_of(PROVIDERS["openai"], model, key=key, **settings)


def anthropic(model: str, *, key: str | None = None, cache: bool = True, **settings: Any) -> RemoteModel:
    """A model at Anthropic, or wherever `ANTHROPIC_BASE_URL` points.

    Args:
        key: The API key; `ANTHROPIC_API_KEY` by default.
        cache: Whether the API shall cache the conversation for five minutes: what is read again costs a tenth, what is
            new a quarter more.
        settings: As for `compatible`.

    Raises:
        ConfigError: When there is no key, or a setting is wrong.
    """
    return _model_of(PROVIDERS["anthropic"], model, key=key, cache=cache, **settings)


def openai_responses(model: str, *, key: str | None = None, **settings: Any) -> RemoteModel:
    """A model at OpenAI, asked through the Responses API, or wherever `OPENAI_BASE_URL` points.

    Reasoning models take up their reasoning again there after each tool call, which chat completions cannot do.

    Args:
        key: The API key; `OPENAI_API_KEY` by default.
        settings: As for `compatible`.

    Raises:
        ConfigError: When there is no key, or a setting is wrong.
    """
    return _model_of(PROVIDERS["openai-responses"], model, key=key, **settings)


def gemini(model: str, *, key: str | None = None, **settings: Any) -> RemoteModel:
    """A model at Google's Gemini API, or wherever `GOOGLE_GEMINI_BASE_URL` points.

    Args:
        key: The API key; `GEMINI_API_KEY` by default, else `GOOGLE_API_KEY`.
        settings: As for `compatible`.

    Raises:
        ConfigError: When there is no key, or a setting is wrong.
    """
    return _model_of(PROVIDERS["gemini"], model, key=key, **settings)


def by_name(name: str, **settings: Any) -> RemoteModel:
    """A model from "provider:model", as the command and `HEAVETO_MODEL` take it.

    Raises:
        ConfigError: When the provider is not known, its key is missing, or a setting is wrong.
    """
    provider, colon, model = name.partition(":")
    known = ", ".join(PROVIDERS)
    if not (colon and provider and model):
        raise ConfigError(f'"{name}" is no model', f'name it as "provider:model"; the providers are {known}')
    if provider not in PROVIDERS:
        raise ConfigError(f'no provider named "{provider}"', f"the providers are {known}")
    return _model_of(PROVIDERS[provider], model, **settings)


def compatible(
    model: str,
    *,
    base_url: str,
    key: str | None = None,
    provider: str = "",
    headers: Mapping[str, str] | None = None,
    stream: bool = True,
    limits: CallLimits | None = None,
    price: Price | tuple[float | str, ...] | None = None,
    exchange: Exchange | str | None = None,
    options: Mapping[str, Any] | None = None,
    max_tokens_field: str = "max_tokens",
    allow_http: bool = False,
    rate: RateLimit | None = None,
    sampling: Sampling | None = None,
    structured: StructuredOutput = "none",
) -> RemoteModel:
    """A model behind any API that is compatible with OpenAI's chat completions.

    Args:
        base_url: The API's address, such as "http://localhost:8000/v1".
        key: Sent as a bearer token; None sends none.
        provider: A name for errors, and for prices where the table has it; the host by default, which it has not.
        headers: Further headers, for an API that takes its key elsewhere.
        stream: Whether replies are streamed.
        limits: Time limits of a call.
        price: Dollars for a million tokens: `(input, output)`, `(input, output, cached_input)`, or with the price of
            what is written to the cache as a fourth.
        exchange: How requests are sent, or the name of a library that sends them: "httpx2", or "aiohttp" on asyncio;
            `HEAVETO_EXCHANGE` by default, else httpx2.
        options: Further fields of each request's body.
        max_tokens_field: The API's name for the most output tokens.
        allow_http: Whether a host that is not this machine may be asked without TLS.
        rate: How much may be asked per time; give one limit to all models that share a key.
        sampling: How the model shall write, where an agent does not say it.
        structured: Whether the server holds an answer to a schema (`response_format`): "beside tools", "alone" (in requests
            without tools), "alone, not streamed", or "none".

    Raises:
        ConfigError: When a setting is wrong.
    """
    host = _checked(base_url, allow_http=allow_http)
    row = Provider(
        name=provider or host,
        base_url=base_url,
        max_tokens_field=max_tokens_field,
        price_provider=provider,
        sampling=ANY_SERVER,
        structured=structured,
    )
    return _build(
        row,
        model,
        base_url=base_url,
        key=key,
        options=options,
        stream=stream,
        price=price,
        headers=headers,
        limits=limits,
        exchange=exchange,
        rate=rate,
        sampling=sampling,
    )


def _model_of(
    row: Provider,
    model: str,
    *,
    key: str | None = None,
    base_url: str | None = None,
    allow_http: bool = False,
    **settings: Any,
) -> RemoteModel:
    base_url = base_url or _own_address(row)
    _checked(base_url, allow_http=allow_http)
    base_url = _with_path(base_url, row.base_url_path)
    if key is None and row.key_variable:
        key = os.environ.get(row.key_variable) or os.environ.get(row.other_key_variable or "-") or None
        if key is not None:
            check_header(row.key_variable, key, "set it again, without line breaks")
        elif row.key_needed:
            raise ConfigError(f"no key for {row.name}", f"set {row.key_variable}, or pass key=")
    return _build(row, model, base_url=base_url, key=key, **settings)


def _own_address(row: Provider) -> str:
    """The provider's address, or the one that its variable has in its place."""
    address = os.environ.get(row.base_url_variable or "-") or row.base_url
    if not address:
        raise ConfigError(f"no address for {row.name}", f"set {row.base_url_variable}, or pass base_url=")
    return address


def _with_path(address: str, path: str) -> str:
    """An address with the API's path, where it has none of its own."""
    parts = urlsplit(address)
    return parts._replace(path=path).geturl() if path and not parts.path.strip("/") else address


def _build(
    row: Provider,
    model: str,
    *,
    base_url: str,
    key: str | None,
    options: Mapping[str, Any] | None = None,
    stream: bool = True,
    cache: bool = True,
    price: Price | tuple[float | str, ...] | None = None,
    exchange: Exchange | str | None = None,
    **settings: Any,
) -> RemoteModel:
    if not model:
        raise ConfigError("the model has no name", f"name one that {row.name} offers")
    return RemoteModel(
        _dialect(row, model, {**row.options, **(row.stream_options if stream else {}), **(options or {})}, stream, cache),
        base_url=base_url,
        key=key,
        price=set_price(price),
        exchange=exchange or os.environ.get("HEAVETO_EXCHANGE") or None,
        api_reports_cost=row.reports_cost,
        spend_path=row.spend_path,
        price_provider=row.name if row.price_provider is None else row.price_provider,
        **settings,
    )


def _dialect(row: Provider, model: str, options: Mapping[str, Any], stream: bool, cache: bool) -> Dialect:
    match row.dialect:
        case "messages":
            return MessagesDialect(model, provider=row.name, stream=stream, cache=cache, options=options)
        case "responses":
            return ResponsesDialect(model, provider=row.name, stream=stream, options=options)
        case "gemini":
            return GeminiDialect(model, provider=row.name, stream=stream, options=options)
        case "chat":
            tokens = row.max_tokens_field
            return ChatDialect(
                model,
                provider=row.name,
                stream=stream,
                max_tokens_field=tokens,
                options=options,
                takes=row.takes,
                key_header=row.key_header,
                sampling=row.sampling,
                structured=row.structured,
            )


def _checked(base_url: str, *, allow_http: bool) -> str:
    """The host of a base URL that may be used."""
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        raise ConfigError("base_url cannot be read", 'it looks like "https://host/v1"') from error
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f'base_url "{shown_address(base_url)}" has no scheme or host', 'it looks like "https://host/v1"')
    if "@" in parts.netloc:
        raise ConfigError(f'base_url "{shown_address(base_url)}" has credentials in it', "pass key= or headers=")
    if parts.scheme == "http" and not (allow_http or is_loopback(host)):
        raise ConfigError(
            f'base_url "{shown_address(base_url)}" would send the key unencrypted', "use https, or pass allow_http=True"
        )
    check_header("base_url", base_url, "percent-encode what is not plain ASCII")
    return host
