"""The ground floor's tests run under the fake clock, on both back ends."""

from __future__ import annotations

from typing import Any

import pytest

from heaveto.testing.clocks import FakeClock


@pytest.fixture
def anyio_backend(fake_clock: FakeClock) -> tuple[str, dict[str, Any]]:
    return fake_clock.backend
