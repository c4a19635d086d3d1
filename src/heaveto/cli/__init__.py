"""The command. Each module loads what it needs when it is used, so that `heaveto --help` is quick."""

from .main import main

__all__ = ["main"]
