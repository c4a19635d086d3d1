"""Lengths of time as people write them."""

from __future__ import annotations

import re

import click

__all__ = ["seconds_of"]

_UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGE = re.compile(r"(\d+)(s|min|h|d|w)")


def seconds_of(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Seconds from what people write: 90s, 15min, 12h, 30d, 2w."""
    if value is None:
        return None
    if (found := _AGE.fullmatch(value)) is None:
        raise click.BadParameter(f'"{value}" is no length of time; give it as 90s, 15min, 12h, 30d or 2w')
    return float(found[1]) * _UNITS[found[2]]
