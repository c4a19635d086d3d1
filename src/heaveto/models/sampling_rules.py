"""Which settings an API has, in which range, and where they go in a request's body.

A setting that the API does not have is refused by name, before anything is sent: to leave it out in silence would be to do
something else than was asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ..errors import ConfigError
from ..messages import Sampling

__all__ = ["NO_RULES", "Place", "Rule", "SamplingRules", "put"]

Path: TypeAlias = tuple[str, ...]


class Place(NamedTuple):
    """A value, and where it goes in the body."""

    path: Path
    value: Any


class Rule(NamedTuple):
    """What an API takes of one setting.

    Attributes:
        path: Where it goes in the body; empty for what `tool_use` places.
        least: The least number, and `most` the largest; of several texts `most` is how many.
        choices: The words that it takes, where it is one.
    """

    path: Path = ()
    least: float = -math.inf
    most: float = math.inf
    choices: tuple[str, ...] = ()


def _no_tool_use(sampling: Sampling) -> Iterable[Place]:  # noqa: ARG001
    return ()


class SamplingRules(NamedTuple):
    """The settings of one API.

    Attributes:
        rules: By the settings' names.
        tool_use: Where `tool_choice` and `parallel_tool_calls` go. They are sent only with tools.
        instead: What to do where a setting is not there, by name.
    """

    rules: Mapping[str, Rule]
    tool_use: Callable[[Sampling], Iterable[Place]] = _no_tool_use
    instead: Mapping[str, str] = {}

    def but(self, *without: str, **rules: Rule) -> SamplingRules:
        """The same with other rules for some settings, and without others."""
        kept = {name: rule for name, rule in {**self.rules, **rules}.items() if name not in without}
        return self._replace(rules=kept)

    def check(self, sampling: Sampling, who: str) -> None:
        """Pass, or refuse.

        Raises:
            ConfigError: It has no such setting, or the value is out of its range.
        """
        for name, value in sampling.given().items():
            rule = self.rules.get(name)
            if rule is None:
                known = ", ".join(self.rules) or "none"
                raise ConfigError(f'{who} has no setting "{name}"', self.instead.get(name) or f"its settings are {known}")
            if problem := _problem(rule, value):
                raise ConfigError(f"{who} does not take {name}={value!r}", f"it takes {problem}")

    def place(self, body: dict[str, Any], sampling: Sampling, *, with_tools: bool) -> None:
        """Put the settings into a body. The most output tokens have other reasons too, and are put there by the encoder."""
        if not sampling:
            return
        for name, value in sampling.given().items():
            rule = self.rules.get(name)
            if rule is not None and rule.path and name != "max_tokens":
                put(body, rule.path, list(value) if isinstance(value, tuple) else value)
        if with_tools:
            for path, value in self.tool_use(sampling):
                put(body, path, value)


NO_RULES = SamplingRules({})


def put(body: dict[str, Any], path: Path, value: Any) -> None:
    """Set a value in a body that shares its inner objects with others: what is on the way is copied."""
    for step in path[:-1]:
        body[step] = dict(body.get(step) or {})
        body = body[step]
    body[path[-1]] = value


def _problem(rule: Rule, value: Any) -> str:
    """What the rule takes; empty when it takes the value."""
    if rule.choices:
        return "" if value in rule.choices else f"one of {', '.join(rule.choices)}"
    if isinstance(value, tuple):
        return f"up to {rule.most:g} texts" if len(value) > rule.most else ""
    if isinstance(value, str) or rule.least <= value <= rule.most:
        return ""
    if rule.most == math.inf:
        return f"{rule.least:g} or more"
    return f"{rule.least:g} to {rule.most:g}"
