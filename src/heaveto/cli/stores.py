"""`--store`: which journal a command is about."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..journal import PostgresStore, SqliteStore

__all__ = ["chosen_store", "command_line", "with_store_option"]

_META = "heaveto.store"
_ADDRESS = re.compile(r"\w+://")  # may hold a password, so it is not printed


def with_store_option(command: click.Command) -> click.Command:
    """The command with `--store`, whose value `chosen_store` finds."""
    if not any(option.name == "store" for option in command.params):
        command.params.append(
            click.Option(
                ["--store"],
                metavar="PLACE",
                expose_value=False,
                callback=_choose,
                help="The journal: a file, or postgresql://user@host/database; else HEAVETO_STORE, else the state folder.",
            )
        )
    return command


def chosen_store() -> SqliteStore | PostgresStore:
    """The store that `--store` names, else HEAVETO_STORE, else the state folder."""
    from ..journal import open_store

    context = click.get_current_context(silent=True)
    return open_store(context.meta.get(_META) if context else None)


def command_line(*words: str) -> str:
    """A command for the person at the terminal to paste: about the same journal, if `--store` named one here.

    Args:
        words: What follows `heaveto`, as it is to be printed.
    """
    context = click.get_current_context(silent=True)
    place = context.meta.get(_META) if context else None
    shown = [] if place is None else ["--store", "PLACE" if _ADDRESS.match(place) else shlex.quote(place)]
    return " ".join(["heaveto", *words, *shown])


def _choose(context: click.Context, _option: click.Parameter, place: str | None) -> None:
    if place == "":
        raise click.BadParameter("it is empty; name a file or postgresql://user@host/database")
    if place:
        context.meta[_META] = place
