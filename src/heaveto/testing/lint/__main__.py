"""The command. Exit status 1 when there are findings, 2 when it was called in a wrong way."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .findings import check_file, python_files


def main(arguments: Sequence[str]) -> int:
    """Check the files and folders named, and print what is found."""
    paths = [Path(argument) for argument in arguments]
    if missing := [str(path) for path in paths if not path.exists()]:
        sys.stderr.write(f"no such file or folder: {', '.join(missing)}\n")
        return 2
    if not paths:
        sys.stderr.write("usage: python -m heaveto.testing.lint PATH...\n")
        return 2
    findings = [finding for path in python_files(paths) for finding in check_file(path)]
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
