"""The command. Exit status 1 when there are findings, 2 when it was called in a wrong way."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .findings import check_file, python_files

USAGE = """usage: python -m heaveto.testing.lint PATH...

Reads Python files, and those in folders but for hidden ones and virtual environments, for what stops badly.
`# heaveto: allow RULE reason` at the end of a line allows a finding there.
"""


def main(arguments: Sequence[str]) -> int:
    """Check the files and folders named, and print what is found."""
    if {"-h", "--help"} & set(arguments):
        sys.stdout.write(USAGE)
        return 0
    paths = [Path(argument) for argument in arguments]
    try:
        problem = _wrong_with(paths)
        files = [] if problem else list(python_files(paths))
    except OSError as error:
        problem = str(error)
    if problem or not files:
        sys.stderr.write(f"{problem or 'there are no Python files in ' + ', '.join(arguments)}\n")
        return 2
    findings = [finding for path in files for finding in check_file(path)]
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    return 1 if findings else 0


def _wrong_with(paths: Sequence[Path]) -> str:
    """What is wrong with the paths that were named; empty when nothing is."""
    if not paths:
        return USAGE.strip()
    if missing := [str(path) for path in paths if not path.exists()]:
        return f"no such file or folder: {', '.join(missing)}"
    if others := [str(path) for path in paths if not (path.is_file() or path.is_dir())]:
        return f"neither a file nor a folder: {', '.join(others)}"
    if notebooks := [str(path) for path in paths if path.suffix == ".ipynb"]:
        return f"a notebook is no Python file, export it as a script first: {', '.join(notebooks)}"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
