"""The answer that a run has to end with: held against its form, and sent back to the model while it does not fit."""

from __future__ import annotations

from typing import Any

from ..errors import BadAnswer, NoFinalAnswer, WrongAnswer
from ..journal.records import AnswerRejected
from ..journal.state import RunState
from ..models import AnswerSchema
from ..tools import AnswerForm

__all__ = ["FinalAnswers"]


class FinalAnswers:
    """Judges what the model gives for its answer. Without a form, any text is one.

    Attributes:
        value: The answer that fitted, as the form's type.
    """

    def __init__(self, form: AnswerForm[Any] | None = None) -> None:
        self._form = form
        self.value: Any = None

    @property
    def schema(self) -> AnswerSchema | None:
        """What the API is asked to hold the answer to; None where a tool takes it, or any will do."""
        form = self._form
        return AnswerSchema(form.name, form.schema) if form is not None and not form.tool else None

    def rejection(self, state: RunState) -> AnswerRejected | None:
        """Why what the model gave for its answer is none; None when it is one."""
        if self._form is None or state.answer is None:
            return None
        try:
            self.value = self._form.read(state.answer)
        except BadAnswer as error:
            return AnswerRejected(turn=state.turns, content=error.for_model, problem=error.problem)
        return None

    def check_patience(self, state: RunState) -> None:
        """Look before each model call whether it has been told often enough.

        Raises:
            NoFinalAnswer, WrongAnswer: It has.
        """
        if self._form is None or state.rejections <= self._form.corrections:
            return
        often = "once" if state.rejections == 1 else f"{state.rejections} times"
        if state.rejected_for:
            raise WrongAnswer(f"{state.rejected_for} (wrong {often})")
        raise NoFinalAnswer(f"the model wrote text instead ({often})")
