"""What is looked at when an agent is made, before it spends anything: whether its model has what is asked of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..errors import ConfigError
from ..messages import Sampling
from ..models import AnswerSchema, ChecksSettings, Model, checked
from ..tools import AnswerForm

__all__ = ["check_answer_form", "settled_sampling"]


def settled_sampling(model: Model, given: Sampling | None, tools: Collection[str], form: AnswerForm[Any] | None) -> Sampling:
    """How the model shall write: as the agent says, and as the model's own settings where it says nothing.

    Args:
        tools: The names of the tools, the final one among them.

    Raises:
        ConfigError: The model does not have a setting, or no run could end well with it.
    """
    if given is not None and given != Sampling():
        checked(model).check_sampling(given)
    own = model.sampling if isinstance(model, ChecksSettings) else Sampling()
    sampling = (given or Sampling()).over(own)
    if sampling.tool_choice is not None:
        _check_choice(sampling.tool_choice, tools, form.tool if form is not None else "")
    return sampling


def _check_choice(choice: str, tools: Collection[str], final: str) -> None:
    if choice not in ("auto", "none", "required") and choice not in tools:
        names = ", ".join(sorted(tools)) or "none"
        raise ConfigError(f'tool_choice="{choice}" is no tool of this agent', f"its tools are {names}")
    if final and choice == "none":
        raise ConfigError(f'tool_choice="none" keeps the model from {final}, which takes its answer', "leave it out")
    if choice not in ("auto", "none", "required" if final else "auto", final):
        raise ConfigError(
            f'tool_choice="{choice}" leaves the model no way to answer',
            'leave it out, or have a tool take the answer (output=...) and use "required" or that tool\'s name',
        )


def check_answer_form(model: Model, form: AnswerForm[Any] | None, *, with_tools: bool) -> None:
    """Pass, or refuse an answer that the API shall hold to a schema and cannot.

    Raises:
        ConfigError: With the way out.
    """
    if form is not None and not form.tool:
        checked(model).check_answer(AnswerSchema(form.name, form.schema), with_tools=with_tools)
