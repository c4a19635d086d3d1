"""The `heaveto` command: its sub-commands, and the one place where an error becomes a sentence and an exit status."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import NoReturn

import click

from .options import HELP
from .stores import with_store_option

__all__ = ["run_and_leave"]

# name -> (module, what it does); a module is imported when its command is used, and for that command's own --help
_COMMANDS = {
    "run": ("running", "Set the agent to work on a task in a folder."),
    "resume": ("running", "Get a stopped, failed or killed run under way again."),
    "runs": ("showing", "List the runs, the last touched first."),
    "show": ("showing", "Show what happened in a run, step by step."),
    "why": ("showing", "Tell why a run ended."),
    "stop": ("keeping", "Stop a run that another process drives."),
    "resolve": ("resolving", "Tell what became of a call whose outcome is not known."),
    "trust": ("trust", "Trust the MCP servers that a project brings."),
    "mcp": ("mcp", "Offer the file tools and run_tests of a folder as an MCP server."),
    "approve": ("approving", "Allow a call that waits for it."),
    "deny": ("approving", "Refuse a call that waits to be allowed."),
    "undo": ("undoing", "Put the files that a run changed back as they were."),
    "fork": ("keeping", "Begin another run that goes on from a turn of this one."),
    "replay": ("keeping", "Hold a run's journal against the code, without model or tools."),
    "verify": ("keeping", "Look for damaged or missing records."),
    "export": ("exporting", "Write runs as lines of JSON."),
    "import": ("exporting", "Keep runs that were exported."),
    "delete": ("keeping", "Forget a run."),
    "prune": ("keeping", "Forget old runs."),
    "compact": ("keeping", "Give the room of deleted runs back to the disk."),
    "demo": ("demo", "Mend a small broken project, without a key."),
    "doctor": ("doctor", "Check what this machine has and lacks."),
}

_WITHOUT_JOURNAL = ("trust", "mcp")

USAGE_STATUS = 2
BUG_STATUS = 1
PASSING_STATUS = 75


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            import difflib  # only here, since every command would wait for it

            if near := difflib.get_close_matches(cmd_name, _COMMANDS, 1):
                ctx.fail(f'There is no command "{cmd_name}"; did you mean "{near[0]}"?')
            return None
        module = importlib.import_module(f"heaveto.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command if cmd_name in _WITHOUT_JOURNAL else with_store_option(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_Commands, context_settings=HELP)
@click.version_option(package_name="heaveto", message="heaveto %(version)s")
def _heaveto() -> None:
    """Run AI agents that stop well: every stop has a cause, every tool call an answer, every dollar is counted, and a run
    that was stopped or killed gets under way again.

    \b
    Exit status: 0 answered, 1 failed, 2 wrong use, 3 a limit was reached, 4 waits for you, 5 stopped from elsewhere,
    75 gave up on something that may pass, 130 Ctrl-C, 143 SIGTERM (129 SIGHUP).
    First Ctrl-C: stop well. Second: stop now. Third: leave at once.
    """


def run_and_leave(argv: list[str] | None = None) -> NoReturn:
    """Run the command and leave with its exit status."""
    status = _status(sys.argv[1:] if argv is None else argv)
    _flush_or_forget()
    sys.exit(status)


def _status(argv: list[str]) -> int:
    from ..errors import ConfigError, JournalBusy, JournalError, JournalUnreachable

    try:
        returned = _heaveto.main(argv, prog_name="heaveto", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return USAGE_STATUS
    except click.ClickException as error:
        error.show()
        return USAGE_STATUS
    except (JournalBusy, JournalUnreachable) as error:
        _say_error(error)
        return PASSING_STATUS
    except (ConfigError, JournalError) as error:
        _say_error(error)
        return USAGE_STATUS
    except (click.Abort, KeyboardInterrupt):
        click.echo("heaveto: interrupted", err=True)
        return 130
    except BrokenPipeError:
        return 5
    except Exception as error:  # boundary: a bug of ours is told in a sentence; the traceback is there for who wants it
        click.echo(f"heaveto: unexpected error: {type(error).__name__}: {error}", err=True)
        if os.environ.get("HEAVETO_TRACEBACK"):
            traceback.print_exception(error)
        else:
            click.echo("  this is a bug in heaveto; HEAVETO_TRACEBACK=1 shows where", err=True)
        return BUG_STATUS
    return returned if isinstance(returned, int) else 0


# What errors say to whoever writes a program, and what it is to whoever typed a command.
IN_A_COMMAND = {
    ", or pass key=": "",
    ", or pass base_url=": "",
    "pass key= or headers=": "take them out, and set the variable of the provider's key",
    "use https, or pass allow_http=True": "use https",
    "give the model its price=, limit turns or tokens instead": "limit turns or tokens instead (--max-turns, --max-tokens)",
}


def _say_error(error: Exception) -> None:
    text = str(error)
    for in_a_program, in_a_command in IN_A_COMMAND.items():
        text = text.replace(in_a_program, in_a_command)
    click.echo(f"heaveto: {text}", err=True)
    if advice := getattr(error, "advice", ""):
        click.echo(f"  {advice}", err=True)


def _flush_or_forget() -> None:
    """A reader who left before the end is no error of ours."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
