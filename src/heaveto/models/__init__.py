"""Models: the protocol, and the clients of the APIs that speak it.

`protocol.py` what the loop asks of a model; `providers.py` the functions that make one; `fallback_model.py` several
that stand in for one another; `client.py` one call; `limits.py`
its time limits; `exchange.py` HTTP as the clients see it, `httpx_exchange.py` over httpx2,
`aiohttp_exchange.py` over aiohttp, `network_problems.py` what their errors are called;
`chunk_joining.py` what both do to HTTP's chunks; `spend_afterwards.py` the spend of a call that was cut;
`recording.py` exchanges in files, `recorded_requests.py` where two differ; `dialect.py` what the client
needs to know of an API; `chat/` the codec of chat completions, `anthropic_messages/` of Messages,
`responses/` of OpenAI's Responses, `gemini_content/` of Gemini's generateContent; `decoder.py`, `sse.py`,
`inputs.py`, `sampling_rules.py`, `answer_schemas.py`,
`figures.py`, `json_bytes.py`, `call_ids.py`, `error_bodies.py` and `prices.py` what every dialect needs.
Another dialect is another package beside them.

Only the protocol is loaded with this package; all else with its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .protocol import AnswerSchema, ChecksInputs, ChecksSettings, Model, ModelStream, Priced, Request, ToolSpec, checked

if TYPE_CHECKING:
    from .aiohttp_exchange import AiohttpExchange
    from .client import RemoteModel
    from .dialect import Dialect
    from .exchange import Answer, Exchange, HTTPRequest
    from .fallback_model import fallback
    from .httpx_exchange import HttpxExchange
    from .limits import CallLimits
    from .prices import Price
    from .providers import (
        PROVIDERS,
        Provider,
        anthropic,
        by_name,
        compatible,
        gemini,
        openai,
        openai_responses,
        openrouter,
    )
    from .recording import record, replay

__all__ = [
    "PROVIDERS",
    "AiohttpExchange",
    "Answer",
    "AnswerSchema",
    "CallLimits",
    "ChecksInputs",
    "ChecksSettings",
    "Dialect",
    "Exchange",
    "HTTPRequest",
    "HttpxExchange",
    "Model",
    "ModelStream",
    "Price",
    "Priced",
    "Provider",
    "RemoteModel",
    "Request",
    "ToolSpec",
    "anthropic",
    "by_name",
    "checked",
    "compatible",
    "fallback",
    "gemini",
    "openai",
    "openai_responses",
    "openrouter",
    "record",
    "replay",
]

_LAZY = {
    "AiohttpExchange": "aiohttp_exchange",
    "RemoteModel": "client",
    "Dialect": "dialect",
    "Answer": "exchange",
    "Exchange": "exchange",
    "HTTPRequest": "exchange",
    "fallback": "fallback_model",
    "HttpxExchange": "httpx_exchange",
    "CallLimits": "limits",
    "Price": "prices",
    "PROVIDERS": "providers",
    "Provider": "providers",
    "anthropic": "providers",
    "by_name": "providers",
    "compatible": "providers",
    "gemini": "providers",
    "openai_responses": "providers",
    "openai": "providers",
    "openrouter": "providers",
    "record": "recording",
    "replay": "recording",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
