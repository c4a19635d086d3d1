"""The settings of generateContent."""

from __future__ import annotations

from collections.abc import Iterable

from ...messages import Sampling
from ..sampling_rules import Place, Rule, SamplingRules

__all__ = ["SAMPLING", "SAMPLING_BEFORE_3"]

MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
EFFORTS = ("minimal", "low", "medium", "high")


def _generation(name: str) -> tuple[str, str]:
    return ("generationConfig", name)


def _tool_use(sampling: Sampling) -> Iterable[Place]:
    if (choice := sampling.tool_choice) is not None:
        yield Place(("toolConfig", "functionCallingConfig", "mode"), MODES.get(choice, "ANY"))
        if choice not in MODES:
            yield Place(("toolConfig", "functionCallingConfig", "allowedFunctionNames"), [choice])


SAMPLING = SamplingRules(
    {
        "temperature": Rule(_generation("temperature"), 0, 2),
        "top_p": Rule(_generation("topP"), 0, 1),
        "top_k": Rule(_generation("topK"), 1),
        "seed": Rule(_generation("seed")),
        "stop": Rule(_generation("stopSequences"), most=5),
        "max_tokens": Rule(least=1),
        "presence_penalty": Rule(_generation("presencePenalty"), -2, 2),
        "frequency_penalty": Rule(_generation("frequencyPenalty"), -2, 2),
        "effort": Rule(("generationConfig", "thinkingConfig", "thinkingLevel"), choices=EFFORTS),
        "tool_choice": Rule(),
    },
    _tool_use,
)
SAMPLING_BEFORE_3 = SAMPLING.but("effort")._replace(
    instead={"effort": 'before Gemini 3 it is options={"generationConfig": {"thinkingConfig": {"thinkingBudget": ...}}}'}
)
