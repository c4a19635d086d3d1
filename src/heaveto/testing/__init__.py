"""The testing kit: what heaveto's own tests use, for yours.

`clocks.py` fake clocks; `stops.py` a stop at every await; `scripted_model.py` a model that follows a script; `faults.py`
stores and networks that go wrong; `leaks.py` what is left behind; `store_conformance.py` what every store must do,
`exchange_conformance.py` every exchange, over `exchange_server.py`; `lint`
the rules that a type checker cannot see; `pytest_plugin.py` the fixtures, which pytest finds by itself.

What is named here is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .clocks import Backend, FakeClock
    from .exchange_conformance import EXCHANGE_CHECKS
    from .faults import Answered, Cut, FaultyExchange, FaultyStore, Write, fault_at, faults_at_random
    from .leaks import Leak, LeakedError, no_leaks
    from .scripted_model import ScriptedModel, calls, scripted
    from .stops import EndlessError, StoppedRun, every_await
    from .store_conformance import CHECKS

__all__ = [
    "CHECKS",
    "EXCHANGE_CHECKS",
    "Answered",
    "Backend",
    "Cut",
    "EndlessError",
    "FakeClock",
    "FaultyExchange",
    "FaultyStore",
    "Leak",
    "LeakedError",
    "ScriptedModel",
    "StoppedRun",
    "Write",
    "calls",
    "every_await",
    "fault_at",
    "faults_at_random",
    "no_leaks",
    "scripted",
]

_HOMES = {
    "clocks": ("Backend", "FakeClock"),
    "exchange_conformance": ("EXCHANGE_CHECKS",),
    "faults": ("Answered", "Cut", "FaultyExchange", "FaultyStore", "Write", "fault_at", "faults_at_random"),
    "leaks": ("Leak", "LeakedError", "no_leaks"),
    "scripted_model": ("ScriptedModel", "calls", "scripted"),
    "stops": ("EndlessError", "StoppedRun", "every_await"),
    "store_conformance": ("CHECKS",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
