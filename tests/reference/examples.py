"""An example of each cause and error that there is, made from its class alone; so a new class has one at once."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, get_type_hints

from heaveto import causes, errors
from heaveto.causes import Described, Foreign, Stop
from heaveto.errors import AgentError, APIError

__all__ = ["classes", "example", "fields_of"]

OURS = (causes.__name__, errors.__name__)

# What a field is in the examples, where the type alone would say little; by the class's code, then by the field's name.
FIELDS: dict[str, Any] = {
    "reason": "the release is cancelled",
    "by": "ada",
    "signal": "SIGINT",
    "seconds": 60.0,
    "setting": None,  # its default
    "tool": "send_mail",
    "call_id": "call_7",
    "identity": "e3b0c44298fc",
    "why": "the process ended while it ran",
    "provider": "openrouter",
    "status": 503,
    "message": "overloaded",
    "retry_after": 20.0,
    "should_retry": None,
    "method": "POST",
    "address": "https://openrouter.ai/api/v1/chat/completions",
    "problem": "connection refused",
    "run_id": "3f2a",
    "owner": "process 4711",
    "holder": "process 4711",
    "path": "journal.db",
    "place": "postgresql://db.example/agents",
    "where": "run 3f2a, record 12",
    "known": ("read_file", "run_tests"),
    "detail": "",
}
OF_ITS_OWN: dict[str, dict[str, Any]] = {
    "client_gone": {"what": "browser"},
    "sibling_failed": {"error": "git: no such folder"},
    "shutdown": {"reason": "SIGTERM"},
    "budget": {"fields": ("a limit was reached",)},
    "max_turns": {"limit": 20},
    "cost_budget": {"spent": Decimal("0.512345"), "limit": Decimal("0.5")},
    "token_budget": {"spent": 201_000, "limit": 200_000},
    "run_deadline": {"seconds": 600.0},
    "output_filtered": {"detail": "safety"},
    "refused": {"detail": "I cannot help with that"},
    "bad_reply": {"detail": "it is longer than 8,000,000 characters"},
    "config": {"problem": "no model is named", "remedy": "give --model"},
    "gave_up": {"attempts": 4, "last": APIError("openrouter", 503, "overloaded"), "why": "no attempts left"},
    "none_answered": {
        "models": ("openai:gpt-5", "ollama:llama"),
        "errors": (APIError("openai", 503, "overloaded"), APIError("ollama", 404, "no such model")),
    },
    "not_enough_time": {"needed": 120.0, "left": 12.5, "what": "the model call"},
    "tool_fatal": {"problem": "the workspace is gone"},
    "tool_error": {"text": 'there is no "clac.py"; did you mean "calc.py"?'},
    "unknown_tool": {"name": "read", "shape": '{"path": "..."}'},
    "bad_arguments": {"problem": 'missing field "to"', "shape": '{"to": "..."}'},
    "tool_crashed": {"type_name": "KeyError", "text": "'subject'"},
    "denied": {"reason": "not on a Friday"},
    "journal": {"problem": "the disk is full"},
    "journal_newer": {"found": 2, "known": 1},
    "journal_damaged": {"problem": "it is cut off"},
    "foreign": {"type_name": "KeyError", "text": "'subject'"},
    "attempt_timeout": {"seconds": 30.0},
    "save_timeout": {"seconds": 10.0},
    "connect_timeout": {"seconds": 10.0},
}
BY_TYPE: dict[Any, Any] = {str: "something", int: 4, float: 60.0, bool: True, Decimal: Decimal("0.5")}


def classes(of: type[Described] | None = None) -> Iterator[type[Described]]:
    """The causes, then the errors, each class before those that are made of it, each once."""
    found: dict[type[Described], None] = {}
    for root in (Stop, AgentError, Foreign) if of is None else (of,):
        pending: list[type[Described]] = [root]
        while pending:
            cls = pending.pop(0)
            if cls.__module__ in OURS and not cls.__name__.startswith("_"):
                found.setdefault(cls)
            pending[:0] = cls.__subclasses__()
    yield from found


def fields_of(cls: type[Described]) -> list[inspect.Parameter]:
    """The named fields, in their order."""
    parameters = inspect.signature(cls.__init__).parameters.values()
    return [each for each in parameters if each.name != "self" and each.kind is each.POSITIONAL_OR_KEYWORD]


def example(cls: type[Described]) -> Described:
    """An exception of the class, as it could come."""
    own = OF_ITS_OWN.get(cls.code, {})
    parameters = fields_of(cls)
    if not parameters:
        return cls(*own.get("fields", ()))
    hints = get_type_hints(cls.__init__)
    values = [_value(each, own, hints.get(each.name)) for each in parameters]
    return cls(*values)


def _value(parameter: inspect.Parameter, own: dict[str, Any], hint: Any) -> Any:
    for known in (own, FIELDS):
        if parameter.name in known:
            return known[parameter.name]
    if parameter.default is not parameter.empty:
        return parameter.default
    return BY_TYPE.get(hint, "something")
