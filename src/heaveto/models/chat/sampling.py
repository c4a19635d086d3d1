"""The settings of chat completions: OpenAI's, and what each provider has otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from ...messages import Sampling
from ..sampling_rules import Place, Rule, SamplingRules

__all__ = ["ANY_SERVER", "EFFORTS", "SAMPLING"]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def _tool_use(sampling: Sampling) -> Iterable[Place]:
    if (choice := sampling.tool_choice) is not None:
        named = {"type": "function", "function": {"name": choice}}
        yield Place(("tool_choice",), choice if choice in ("auto", "none", "required") else named)
    if sampling.parallel_tool_calls is not None:
        yield Place(("parallel_tool_calls",), sampling.parallel_tool_calls)


SAMPLING = SamplingRules(
    {
        "temperature": Rule(("temperature",), 0, 2),
        "top_p": Rule(("top_p",), 0, 1),
        "seed": Rule(("seed",)),
        "stop": Rule(("stop",), most=4),
        "max_tokens": Rule(least=1),
        "presence_penalty": Rule(("presence_penalty",), -2, 2),
        "frequency_penalty": Rule(("frequency_penalty",), -2, 2),
        "effort": Rule(("reasoning_effort",), choices=EFFORTS),
        "parallel_tool_calls": Rule(),
        "tool_choice": Rule(),
    },
    _tool_use,
)
ANY_SERVER = SAMPLING.but(stop=Rule(("stop",)), top_k=Rule(("top_k",), 0))  # what its owner says that it has
