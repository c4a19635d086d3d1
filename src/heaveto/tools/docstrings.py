"""What a Google-style docstring says: the text before `Args:`, and a description for each parameter."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Described", "read_docstring"]


class Described(NamedTuple):
    """A docstring's parts.

    Attributes:
        text: What stands before the parameters.
        parameters: Name to description, one line each.
    """

    text: str
    parameters: Mapping[str, str]


def read_docstring(docstring: str) -> Described:
    """Take a docstring apart."""
    import griffe  # only tools that are used pay for it

    sections = griffe.Docstring(inspect.cleandoc(docstring)).parse("google", warnings=False)
    text: list[str] = []
    parameters: dict[str, str] = {}
    for section in sections:
        if isinstance(section, griffe.DocstringSectionParameters):
            parameters |= {each.name: " ".join(each.description.split()) for each in section.value}
        elif parameters:
            continue
        elif isinstance(section, griffe.DocstringSectionText):
            text.append(section.value)
        elif isinstance(section, griffe.DocstringSectionAdmonition):  # "Note:" and the like are part of the text
            text.append(f"{section.title}: {section.value.contents}")
    return Described("\n\n".join(text).strip(), parameters)
