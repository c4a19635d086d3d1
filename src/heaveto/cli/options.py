"""The flags of a run, and what they come to with the environment and the run's own settings."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import click

from ..errors import ConfigError

__all__ = ["HELP", "Settings", "output_options", "resume_options", "run_options"]

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is to be like. Those that are kept with the run (`kept`) apply again when it is resumed."""

    model: str
    folder: str = "."
    max_turns: int | None = None
    max_usd: str | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    grace: float = 7.0
    test_command: str | None = None
    test_python: str | None = None
    test_seconds: float | None = None
    idle_seconds: float | None = None
    call_seconds: float | None = None
    attempts: int | None = None
    output_format: str = "text"
    output_file: str | None = None
    ephemeral: bool = False
    mcp_config: str | None = None
    permission: str = "accept-edits"
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    ask: Sequence[str] = ()
    sandbox: str = "auto"
    network: bool = False
    sampling: Sequence[str] = ()

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any], kept: Mapping[str, Any] | None = None) -> Settings:
        """Flags before what the run had, that before the environment, that before the defaults.

        Raises:
            ConfigError: No model is named anywhere.
        """
        values = (
            _from_environment()
            | dict(kept or {})
            | {name: value for name, value in flags.items() if value not in (None, ())}
        )
        if not values.get("model"):
            raise ConfigError(
                "no model is named",
                "give --model, such as offline or openrouter:anthropic/claude-sonnet-4.5, or set HEAVETO_MODEL",
            )
        known = {name: value for name, value in values.items() if name in cls.__dataclass_fields__}
        return cls(**known)

    def kept(self) -> dict[str, Any]:
        """What is written down with the run."""
        return {name: value for name, value in asdict(self).items() if name in _KEPT and value is not None}


_KEPT = (
    "model",
    "test_command",
    "test_python",
    "test_seconds",
    "grace",
    "idle_seconds",
    "call_seconds",
    "attempts",
    "mcp_config",
    "permission",
    "allow",
    "deny",
    "ask",
    "sandbox",
    "network",
    "sampling",
)

_ENVIRONMENT = {
    "model": "HEAVETO_MODEL",
    "test_command": "HEAVETO_TEST_COMMAND",
    "test_python": "HEAVETO_TEST_PYTHON",
}


def _from_environment() -> dict[str, str]:
    return {name: value for name, variable in _ENVIRONMENT.items() if (value := os.environ.get(variable))}


class _Dollars(click.ParamType[str]):
    name = "usd"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from ..messages import parse_usd

        try:
            return str(parse_usd(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Setting(click.ParamType[str]):
    """A setting of the model and its value. Its text is kept with the run."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from .sampling import sampling_of

        try:
            sampling_of([value])
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class _Seconds(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


class _File(click.Path):
    """A file that is found again from another folder, since it is kept with the run."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return os.path.abspath(str(super().convert(value, param, ctx)))


class _Folder(click.Path):
    """A folder by its name. An empty one is a variable that was not set, and not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail('it is empty; name a folder, "." for the current one', param, ctx)
        return super().convert(value, param, ctx)


_MODES = click.Choice(["ask", "accept-edits", "auto", "deny"])
_SANDBOXES = click.Choice(["auto", "require", "off"])
_POSITIVE = _Seconds(min=0, min_open=True)
_NOT_NEGATIVE = _Seconds(min=0)
_FORMATS = click.Choice(["text", "json", "stream-json"])

_NEW_RUN_OPTIONS = [
    click.option("-m", "--model", metavar="PROVIDER:NAME", help="The model, or `offline` for the repair engine."),
    click.option("-C", "--folder", metavar="DIR", type=_Folder(), help="The working folder; the current one by default."),
    click.option("--max-turns", type=click.IntRange(min=0), help="Model calls; 100 by default."),
    click.option("--ephemeral", is_flag=True, default=None, help="Keep nothing: no journal, no resume."),
]
_OLD_RUN_OPTIONS = [
    click.option("-m", "--model", metavar="PROVIDER:NAME", help="Another model than the run had."),
    click.option("-C", "--folder", metavar="DIR", type=_Folder(), help="Another working folder than the run had."),
    click.option("--max-turns", type=click.IntRange(min=0), help="Model calls, those before included."),
]
_RUN_OPTIONS = [
    click.option("--max-usd", type=_Dollars(), help="Dollars."),
    click.option("--max-tokens", type=click.IntRange(min=0), help="Tokens, in and out together."),
    click.option("--max-seconds", type=_NOT_NEGATIVE, help="Time driven, over all resumes."),
    click.option("--idle-seconds", type=_POSITIVE, help="How long a streaming model may be silent; 60."),
    click.option("--call-seconds", type=_POSITIVE, help="The limit of a whole model call; none for one that streams."),
    click.option("--attempts", type=click.IntRange(min=1), help="At a model call that fails in passing; 4."),
    click.option(
        "--sampling",
        multiple=True,
        default=None,
        type=_Setting(),
        help="How the model shall write, such as temperature=0.2; may be given several times.",
    ),
    click.option("--grace", type=_NOT_NEGATIVE, help="Seconds that work in flight has after SIGTERM; 7."),
    click.option("--mcp-config", metavar="FILE", type=_File(), help="An mcpServers file: what they offer are tools too."),
    click.option(
        "--permission",
        type=_MODES,
        help="Which calls ask you: all that change something, all but edits and tests, none; or deny.",
    ),
    click.option("--allow", multiple=True, default=None, metavar="RULE", help="What may run: run_command(git diff*)."),
    click.option("--deny", multiple=True, default=None, metavar="RULE", help="What may not: run_command(*sudo*)."),
    click.option("--ask", multiple=True, default=None, metavar="RULE", help="What asks you in any case: *(deploy/*)."),
    click.option(
        "--sandbox", type=_SANDBOXES, help="What commands and tests run in: the best there is; that or nothing; none."
    ),
    click.option("--network", is_flag=True, default=None, help="Let commands and tests in the sandbox use the network."),
    click.option("--test-command", metavar="COMMAND", help="What run_tests runs, instead of pytest or unittest."),
    click.option("--test-python", metavar="PATH", help="The interpreter that run_tests uses."),
    click.option("--test-seconds", type=_POSITIVE, help="The limit of one test run; 300."),
]

_OUTPUT_OPTIONS = [
    click.option("--output-format", type=_FORMATS, help="json: the end as one object; stream-json: an event a line."),
    click.option("--json", "output_format", flag_value="stream-json", help="The same as --output-format stream-json."),
    click.option("-o", "--output-file", metavar="FILE", type=click.Path(), help="Write the answer to a file too."),
]


def run_options(command: F) -> F:
    """The flags of a new run."""
    return _with(command, [*_NEW_RUN_OPTIONS, *_RUN_OPTIONS])


def resume_options(command: F) -> F:
    """The flags of a run that is taken up again: by default all is as it was."""
    return _with(command, [*_OLD_RUN_OPTIONS, *_RUN_OPTIONS])


def _with(command: F, options: Sequence[Callable[[F], F]]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def output_options(command: F) -> F:
    """The flags that say how a run is shown."""
    for option in reversed(_OUTPUT_OPTIONS):
        command = option(command)
    return command
