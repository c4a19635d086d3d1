"""Replies of model APIs with what a right client concludes: the recorded ones, and those made by hand.

The recordings are not part of the repository; `HEAVETO_WIRE_DIR` says where they are.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "Reply", "recorded"]

FOLDER = Path(os.environ.get("HEAVETO_WIRE_DIR") or Path(__file__).parents[3] / "shared" / "wire")


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer of an API.

    Attributes:
        dialect: "chat", "anthropic", "responses" or "gemini".
        stream: Whether the body is an event stream.
        expected: What a right client concludes, in the recordings' own words.
        nasty: Offsets to cut the body at: inside a character, between CR and LF, inside a field's name.
    """

    name: str
    dialect: str
    stream: bool
    body: bytes
    expected: dict[str, Any]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    nasty: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name


def recorded() -> list[Reply]:
    """All recordings; none where the folder is not there."""
    index = FOLDER / "index.json"
    if not index.exists():
        return []
    return [_recorded(name, entry) for name, entry in json.loads(index.read_text())["entries"].items()]


def _recorded(name: str, entry: dict[str, Any]) -> Reply:
    return Reply(
        name=name,
        dialect=entry["dialect"],
        stream=entry["stream"],
        body=(FOLDER / f"{name}.response.txt").read_bytes(),
        expected=entry["expected"],
        status=entry["status"],
        headers=entry["headers"],
        nasty=tuple(entry.get("nasty_split_offsets", ())),
    )


NASTY = re.compile(
    rb"(?<=\r)(?=\n)|(?<=da)(?=ta:)|(?<=eve)(?=nt:)|(?<=\\u)|(?<=[\xc2-\xf4])(?=[\x80-\xbf])|(?=.\Z)", re.DOTALL
)


def nasty_offsets(body: bytes) -> tuple[int, ...]:
    """Where a naive decoder breaks."""
    return tuple(match.start() for match in NASTY.finditer(body) if 0 < match.start() < len(body))
