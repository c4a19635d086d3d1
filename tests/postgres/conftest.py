"""The modules beside this one serve `make postgres` too, which runs them as scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from postgres_server import Server, find_binaries, other_server, running_server, schema_address


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server of this test run's own, which may be restarted."""
    if find_binaries() is None:
        pytest.skip("no postgres")
    with running_server() as running:
        yield running


@pytest.fixture
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of an empty place in a database."""
    at = other_server() or request.getfixturevalue("server").address
    with schema_address(at) as place:
        yield place
