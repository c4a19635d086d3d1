"""What of a project's own files the user has trusted, by a hash of it, in the user's state folder.

The hash covers the server's name and entry as they are written, the project's place, and the content of each file of the
project that the command line names. When one of them changes, it is no longer trusted. What such a script loads in its
turn is not covered.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import click

from ..errors import ConfigError
from ..journal import default_path
from .options import HELP

__all__ = ["Trusted", "in_project", "project_of", "trust_command"]

FILE_NAME = "trusted.json"
VERSION = 1


@dataclass(frozen=True)
class Trusted:
    """The hashes, each with the words that it was trusted for."""

    hashes: dict[str, str]

    @classmethod
    def read(cls) -> Self:
        """What was trusted so far.

        Raises:
            ConfigError: The file is damaged.
        """
        path = _path()
        try:
            data = json.loads(path.read_text("utf-8"))
            if data["version"] != VERSION:
                raise ConfigError(f"{path} was written by another version of heaveto", "upgrade heaveto, or remove the file")
            return cls(dict(data["trusted"]))
        except FileNotFoundError:
            return cls({})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}", "remove it, and trust again what you use") from error

    def has(self, name: str, entry: dict[str, Any], folder: Path) -> bool:
        return hash_of(name, entry, folder) in self.hashes

    def add(self, name: str, entry: dict[str, Any], folder: Path) -> None:
        self.hashes[hash_of(name, entry, folder)] = f"{name}: {command_line(entry)}"

    def write(self) -> None:
        """Keep it, for the user's eyes only."""
        path = _path()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = path.with_name(f"{FILE_NAME}.{os.getpid()}")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump({"version": VERSION, "trusted": self.hashes}, file, indent=1)
        new.replace(path)


@click.command("trust", context_settings=HELP)
@click.argument("file", type=click.Path())
@click.option("-C", "--folder", metavar="DIR", type=click.Path(), default=".", help="The working folder of the runs.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def trust_command(file: str, folder: str, yes: bool) -> int:
    """Trust the MCP servers of a FILE that comes from the project itself, as they are now.

    They are programs that run with your rights. When the file changes, or a script of the project that it names, it has to
    be trusted again.
    """
    from .servers import read_entries

    entries, where = read_entries(Path(file)), Path(folder).resolve()
    if not in_project(Path(file), where):
        click.echo(f"{file} is not of the project in {where}: it needs no trust")
        return 0
    for name, entry in entries.items():
        click.echo(f"{name}: {command_line(entry)}")
    if not yes and not click.confirm("Trust them?"):
        return 2
    trusted = Trusted.read()
    for name, entry in entries.items():
        trusted.add(name, entry, where)
    trusted.write()
    click.echo(f"trusted: {', '.join(entries) or 'nothing'}")
    return 0


def in_project(path: Path, folder: Path) -> bool:
    """Whether a file is the project's rather than the user's own; a link counts for where it is and for where it leads."""
    project = project_of(folder)
    lexical = Path(os.path.abspath(path))
    return lexical.is_relative_to(project) or path.resolve().is_relative_to(project)


def project_of(folder: Path) -> Path:
    """The repository that a folder is in, else the folder itself."""
    folder = folder.resolve()
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def hash_of(name: str, entry: dict[str, Any], folder: Path) -> str:
    """The hash of a server as it would be started."""
    project = project_of(folder)
    words = [entry.get("command", ""), *entry.get("args", [])]
    start = (folder / str(entry.get("cwd", "."))).resolve()
    scripts = {word: digest for word in words if (digest := _digest_of((start / word).resolve(), project))}
    seen = {"project": str(project), "name": name, "entry": entry, "scripts": scripts}
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def command_line(entry: dict[str, Any]) -> str:
    """What a server is, in a line for people."""
    if "url" in entry:
        return str(entry["url"])
    variables = "".join(f"{key}={value} " for key, value in entry.get("env", {}).items())
    return f"{variables}{' '.join([entry['command'], *entry.get('args', [])])}"


def _digest_of(path: Path, project: Path) -> str:
    """The hash of a file of the project; empty for anything else."""
    if not path.is_relative_to(project) or not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "it is named in a server's command line") from error


def _path() -> Path:
    return default_path().parent / FILE_NAME
