"""`import heaveto` is light: it loads nothing optional, and of other people's packages only those named here."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

THIRD_PARTY = {
    "anyio",
    "idna",  # anyio's, for host names
    "msgspec",
    "sniffio",  # anyio's, before 4.12
    "typing_extensions",  # anyio's, before Python 3.13
}
TOO_HEAVY = {"email", "http.client", "sqlite3", "trio", "unittest", "urllib.request"}
PROGRAM = """
import json, sys
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(module: str) -> set[str]:
    """The modules that importing `module` loads into a fresh interpreter."""
    command = [sys.executable, "-I", "-c", PROGRAM.format(module=module)]
    return set(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def third_party(modules: set[str]) -> set[str]:
    tops = {module.partition(".")[0] for module in modules}
    return {top for top in tops if top not in sys.stdlib_module_names and not top.startswith(("heaveto", "__editable__"))}


@pytest.mark.parametrize("module", ["heaveto", "heaveto.scopes", "heaveto.testing"])
def test_importing_loads_nothing_that_is_not_needed(module: str) -> None:
    modules = loaded_by(module)
    assert third_party(modules) <= THIRD_PARTY
    assert modules & TOO_HEAVY == set()


def test_the_pytest_plugin_loads_nothing_that_pytest_does_not() -> None:
    """It is loaded into every pytest run where heaveto is installed."""
    own = loaded_by("heaveto.testing.pytest_plugin") - loaded_by("pytest")
    assert own == {"heaveto", "heaveto.testing", "heaveto.testing.pytest_plugin"}


def test_the_scopes_load_nothing_above_them() -> None:
    ours = {module.split(".")[1] for module in loaded_by("heaveto.scopes") if module.startswith("heaveto.")}
    assert ours == {"causes", "errors", "scopes"}
