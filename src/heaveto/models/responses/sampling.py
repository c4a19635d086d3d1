"""The settings of Responses."""

from __future__ import annotations

from collections.abc import Iterable

from ...messages import Sampling
from ..sampling_rules import Place, Rule, SamplingRules

__all__ = ["SAMPLING"]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def _tool_use(sampling: Sampling) -> Iterable[Place]:
    if (choice := sampling.tool_choice) is not None:
        named = {"type": "function", "name": choice}
        yield Place(("tool_choice",), choice if choice in ("auto", "none", "required") else named)
    if sampling.parallel_tool_calls is not None:
        yield Place(("parallel_tool_calls",), sampling.parallel_tool_calls)


SAMPLING = SamplingRules(
    {
        "temperature": Rule(("temperature",), 0, 2),
        "top_p": Rule(("top_p",), 0, 1),
        "max_tokens": Rule(least=1),
        "effort": Rule(("reasoning", "effort"), choices=EFFORTS),
        "parallel_tool_calls": Rule(),
        "tool_choice": Rule(),
    },
    _tool_use,
)
