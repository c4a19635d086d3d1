"""What the next model call may use, worked out before it is made. Pure, and all of it estimates.

The rules of this file:
- The input is what the API last reported, and a third of the bytes that are new since; of the first call, all its bytes.
- It is priced as if nothing of it came from a cache, and as if all of it were written to one.
- What nobody knows is called so (None), never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import msgspec

from ..errors import BudgetExhausted, CostBudget, MaxTurns, TokenBudget
from ..journal.state import RunState
from ..messages import Limits, Message, ToolMessage, Usage, UserMessage
from ..models import AnswerSchema, Model, Priced, ToolSpec
from ..models.json_bytes import encode

__all__ = ["Amount", "Forecast", "InputMeter", "forecast", "refusal", "total_of"]

BYTES_PER_TOKEN = 3  # of a request's JSON, measured; on the safe side
LARGEST_OUTPUT = 8192  # tokens, where a model does not say: nearly all can write as many
LEAST_OUTPUT = 16  # tokens: fewer are no reply, and some APIs take no smaller limit
MEDIA_TOKENS = 2000  # an image takes some 1,500 at the most common sizes, a page of a PDF as many
PRICED_TOKENS = 1000  # enough for a price's decimals
INFINITE = Decimal("Infinity")


class Amount(msgspec.Struct, frozen=True):
    """What is used, or may be: turns, dollars and tokens, infinite where nothing bounds them."""

    turns: float = 0
    usd: Decimal = Decimal(0)
    tokens: float = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.turns + other.turns, self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.turns - other.turns, self.usd - other.usd, self.tokens - other.tokens)

    def within(self, room: Amount) -> bool:
        """Whether there is room for it."""
        return self.turns <= room.turns and self.usd <= room.usd and self.tokens <= room.tokens

    def at_most(self, other: Amount) -> Amount:
        return Amount(min(self.turns, other.turns), min(self.usd, other.usd), min(self.tokens, other.tokens))

    def at_least(self, other: Amount) -> Amount:
        return Amount(max(self.turns, other.turns), max(self.usd, other.usd), max(self.tokens, other.tokens))

    def where(self, limits: Limits, other: Amount) -> Amount:
        """This amount where there is a limit, the other where there is none."""
        return Amount(
            other.turns if limits.turns is None else self.turns,
            other.usd if limits.usd is None else self.usd,
            other.tokens if limits.tokens is None else self.tokens,
        )

    @classmethod
    def of(cls, usage: Usage, *, turns: int = 0) -> Amount:
        return cls(turns, usage.cost_usd or Decimal(0), usage.input_tokens + usage.output_tokens)

    @classmethod
    def allowed_by(cls, limits: Limits) -> Amount:
        return cls(
            math.inf if limits.turns is None else limits.turns,
            INFINITE if limits.usd is None else limits.usd,
            math.inf if limits.tokens is None else limits.tokens,
        )


def total_of(state: RunState) -> Amount:
    """What a run has used."""
    spend = state.spend
    return Amount(state.turns, spend.cost_usd, spend.input_tokens + spend.output_tokens)


class Forecast(msgspec.Struct, frozen=True):
    """A call that is not made yet.

    Attributes:
        largest_output: The most output tokens that it can have.
        least_output: Fewer are not worth a call.
        input_usd: What its input may cost; None where nobody knows the price.
        output_usd: What a token of its output costs.
    """

    input_tokens: int
    largest_output: int = LARGEST_OUTPUT
    least_output: int = LEAST_OUTPUT
    input_usd: Decimal | None = None
    output_usd: Decimal = Decimal(0)

    @property
    def least(self) -> Amount:
        """What a call worth making uses. Of a price that nobody knows, nothing: one call's overshoot is accepted."""
        return Amount(1, self.usd(self.least_output) or Decimal(0), self.input_tokens + self.least_output)

    def most(self, output_tokens: int) -> Amount:
        """What a call with that much output may use. Of a price that nobody knows, all that there is."""
        usd = self.usd(output_tokens)
        return Amount(1, INFINITE if usd is None else usd, self.input_tokens + output_tokens)

    def usd(self, output_tokens: int) -> Decimal | None:
        return None if self.input_usd is None else self.input_usd + output_tokens * self.output_usd

    def output_within(self, room: Amount) -> int:
        """The most output tokens for which there is room, at most `largest_output`; negative when the input has none."""
        most = min(self.largest_output, room.tokens - self.input_tokens)
        if self.input_usd is not None and room.usd != INFINITE:
            left = room.usd - self.input_usd
            if left < 0 or self.output_usd:
                most = min(most, -1 if left < 0 else int(left / self.output_usd))
        return int(most)


def forecast(model: Model, input_tokens: int, max_tokens: int | None = None) -> Forecast:
    """The forecast of a call with that much input. Asking for the price may load a price table.

    Args:
        max_tokens: The most output tokens that the call asks for anyway; None where it leaves that to the API.
    """
    known = [each for each in (max_tokens, model.largest_output if isinstance(model, Priced) else None) if each is not None]
    largest = min(known, default=LARGEST_OUTPUT)
    if not isinstance(model, Priced):
        return Forecast(input_tokens, largest, min(LEAST_OUTPUT, largest))
    fresh = model.cost(Usage(input_tokens=input_tokens))
    output = model.cost(Usage(input_tokens=input_tokens, output_tokens=PRICED_TOKENS))
    written = model.cost(Usage(input_tokens=input_tokens, cache_write_tokens=input_tokens))
    return Forecast(
        input_tokens,
        largest,
        min(max(model.least_output, LEAST_OUTPUT), largest),
        None if fresh is None else max(fresh, written or fresh),
        Decimal(0) if fresh is None or output is None else (output - fresh) / PRICED_TOKENS,
    )


def refusal(limits: Limits, used: Amount, least: Amount) -> BudgetExhausted | None:
    """The limit that forbids a call which uses at least so much; None when there is room for it."""
    if limits.turns is not None and used.turns + least.turns > limits.turns:
        return MaxTurns(limits.turns, limits.setting("turns"))
    if limits.usd is not None and (used.usd >= limits.usd or used.usd + least.usd > limits.usd):
        next_call = least.usd if used.usd < limits.usd else None
        return CostBudget(used.usd, limits.usd, limits.setting("usd"), next_call)
    if limits.tokens is not None and (used.tokens >= limits.tokens or used.tokens + least.tokens > limits.tokens):
        needed = int(least.tokens) if used.tokens < limits.tokens else None
        return TokenBudget(int(used.tokens), limits.tokens, limits.setting("tokens"), needed)
    return None


class InputMeter:
    """Measures the input of a run's next call. Each message is measured once."""

    def __init__(self, tools: Sequence[ToolSpec], answer: AnswerSchema | None = None) -> None:
        self._tools, self._answer, self._measured, self._bytes = tools, answer, 0, 0

    def tokens(self, state: RunState) -> int:
        """The tokens of a request with the run's whole transcript."""
        messages = state.transcript
        if state.reported_tokens:
            new = sum(_size(messages[index]) for index in range(state.reported_messages, len(messages)))
            return state.reported_tokens + math.ceil(new / BYTES_PER_TOKEN)
        if not self._measured:
            self._bytes = len(encode([(tool.name, tool.description, tool.schema) for tool in self._tools]))
            self._bytes += 0 if self._answer is None else len(encode(self._answer.schema))
        self._bytes += sum(_size(messages[index]) for index in range(self._measured, len(messages)))
        self._measured = len(messages)
        return math.ceil(self._bytes / BYTES_PER_TOKEN)


def _size(message: Message) -> int:
    """The bytes of a message, with a round figure for each image and file: their own bytes say nothing of their tokens."""
    if isinstance(message, UserMessage | ToolMessage) and message.parts:
        media = sum(not isinstance(part, str) for part in message.parts)
        return len(encode(message.content)) + media * MEDIA_TOKENS * BYTES_PER_TOKEN
    return len(encode(message))
