"""What stops a run before it spends more. Pure."""

from __future__ import annotations

from ..errors import AgentError, ConfigError, CostBudget, MaxTurns, TokenBudget
from ..journal.state import RunState
from ..messages import Limits
from ..models import Model

__all__ = ["check_price", "exhausted"]


def exhausted(state: RunState) -> AgentError | None:
    """The limit that forbids the next model call; None while there is none. Time is a deadline, not looked at here."""
    limits, spend = state.limits, state.spend
    if limits.turns is not None and state.turns >= limits.turns:
        return MaxTurns(limits.turns)
    if limits.usd is not None and spend.cost_usd >= limits.usd:
        return CostBudget(spend.cost_usd, limits.usd)
    tokens = spend.input_tokens + spend.output_tokens
    if limits.tokens is not None and tokens >= limits.tokens:
        return TokenBudget(tokens, limits.tokens)
    return None


def check_price(limits: Limits, model: Model) -> None:
    """Refuse a dollar limit that could not be kept, since nobody knows what a call costs.

    Raises:
        ConfigError: Naming the ways out.
    """
    if limits.usd is not None and not model.reports_cost:  # asking may load a price table
        raise ConfigError(
            f"a dollar limit needs a price, and nobody knows what {model.name} costs",
            "give the model its price=, limit turns or tokens instead, or use an API that reports the cost",
        )
