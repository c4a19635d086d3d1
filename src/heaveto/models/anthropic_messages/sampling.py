"""The settings of Messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...messages import Sampling
from ..sampling_rules import Place, Rule, SamplingRules

__all__ = ["SAMPLING"]

CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def _tool_use(sampling: Sampling) -> Iterable[Place]:
    if sampling.tool_choice is None and sampling.parallel_tool_calls is None:
        return
    choice = sampling.tool_choice or "auto"
    value: dict[str, Any] = {"type": CHOICES.get(choice, "tool")}
    if value["type"] == "tool":
        value["name"] = choice
    if sampling.parallel_tool_calls is not None and choice != "none":
        value["disable_parallel_tool_use"] = not sampling.parallel_tool_calls
    yield Place(("tool_choice",), value)


SAMPLING = SamplingRules(
    {
        "temperature": Rule(("temperature",), 0, 1),
        "top_p": Rule(("top_p",), 0, 1),
        "top_k": Rule(("top_k",), 0),
        "stop": Rule(("stop_sequences",)),
        "max_tokens": Rule(least=1),
        "effort": Rule(("output_config", "effort"), choices=("low", "medium", "high", "xhigh", "max")),
        "parallel_tool_calls": Rule(),
        "tool_choice": Rule(),
    },
    _tool_use,
)
