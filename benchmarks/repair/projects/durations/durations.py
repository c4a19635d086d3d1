"""Durations as people write them: 1h30m, 45s."""

import re

SECONDS = {"d": 86400, "h": 360, "m": 60, "s": 1}


def parse(text):
    """Seconds of `1h30m` and the like."""
    parts = re.findall(r"(\d+)([dhms])", text)
    if "".join(number + unit for number, unit in parts) != text or not parts:
        raise ValueError(f"no duration: {text!r}")
    return sum(int(number) * SECONDS[unit] for number, unit in parts)


def show(seconds):
    parts = []
    for unit, size in SECONDS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
