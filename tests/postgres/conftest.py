"""The modules beside this one serve `make postgres` too, which runs them as scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from postgres_server import Server

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server of this test run's own, which may be restarted."""
    from postgres_server import find_binaries, running_server

    if find_binaries() is None:
        pytest.skip("no postgres")
    with running_server() as running:
        yield running


@pytest.fixture
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of an empty place in a database."""
    from postgres_server import other_server, schema_address

    if at := other_server():
        with schema_address(at) as place:
            yield place
    else:
        yield request.getfixturevalue("server").place()
