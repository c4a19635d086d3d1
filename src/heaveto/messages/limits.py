"""The limits that a user sets on a run."""

from __future__ import annotations

import math
from decimal import Decimal

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

    Raises:
        ValueError: When a limit is negative or not a number.
    """

    turns: int | None = 100  # enough for a long job, and an end to one that goes in circles
    usd: Decimal | str | float | None = None
    tokens: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("turns", "tokens", "seconds"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or math.isnan(value) or value < 0):
                raise ValueError(f"{name} must be 0 or more, not {value}")
        if self.usd is not None:
            msgspec.structs.force_setattr(self, "usd", parse_usd(self.usd))

    @property
    def dollars(self) -> Decimal | None:
        """`usd` as what it is after construction."""
        return None if self.usd is None else Decimal(self.usd)

    def raised_by(self, other: Limits) -> Limits:
        """These limits with those of `other` that are set to something else than the default."""
        changes = {
            name: value for name in self.__struct_fields__ if (value := getattr(other, name)) != getattr(Limits(), name)
        }
        return msgspec.structs.replace(self, **changes)
