"""The limits that a user sets on a run."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from .money import parse_usd

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run may use up. None is no limit, 0 allows nothing.

    Args:
        turns: Model calls that were answered.
        usd: Dollars, as a number or as people write them ("0.50").
        tokens: Input and output tokens together.
        seconds: Time driven, over all resumes.
        told_as: What a limit that was reached is called, for people: the flag or the variable that moves it, by the
            argument's name. `Limits(usd=...)` and so on by default.

    Raises:
        ValueError: When a limit is negative or not a number.
    """

    turns: int | None = 100  # enough for a long job, and an end to one that goes in circles
    usd: Decimal | None = None
    tokens: int | None = None
    seconds: float | None = None
    told_as: dict[str, str] = {}

    if TYPE_CHECKING:  # what people may write, which `__post_init__` makes dollars of

        def __init__(
            self,
            *,
            turns: int | None = 100,
            usd: Decimal | str | float | None = None,
            tokens: int | None = None,
            seconds: float | None = None,
            told_as: dict[str, str] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("turns", "tokens", "seconds"):
            value = getattr(self, name)
            if value is not None and not _is_a_limit(value):
                raise ValueError(f"{name} must be 0 or more, not {value!r}")
        if self.usd is not None:
            msgspec.structs.force_setattr(self, "usd", parse_usd(self.usd))

    def setting(self, name: str) -> str:
        """What the limit of that name is called."""
        return self.told_as.get(name, f"Limits({name}=...)")


def _is_a_limit(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value) and value >= 0
