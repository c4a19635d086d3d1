"""The ground floor: scopes that are stopped with a cause, and waiting that gives up well. Standard library and AnyIO only.

`scope.py` what is stopped, and why; `groups.py` tasks; `finishing.py` the two ways out of a stop; `threads.py` sync code
beside the loop; `apart.py` async code that may not heed a stop; `foreign.py` code made for asyncio; `abandoned.py` what was
left behind; `callees.py` what may be called at all; `callbacks.py` a stop that calls back; `moving_limit.py` a deadline that
moves often; `slots.py` and `rate_limit.py` waiting for a turn; `clock.py` the two clocks.
"""

from .abandoned import abandonments
from .apart import call_in_task
from .callbacks import StopCallback, on_stop
from .clock import loop_waker, outside_the_loop, wall_time
from .finishing import finish, graced
from .foreign import abandoned_tasks, call_foreign
from .groups import Tasks, tasks
from .rate_limit import RateLimit, RateLimitStatistics
from .scope import Scope, check_stop, current_cause, deadline, need, pending_cause, time_left
from .slots import Slots, SlotsStatistics
from .threads import Handoff, abandoned_threads, call_in_thread

__all__ = [
    "Handoff",
    "RateLimit",
    "RateLimitStatistics",
    "Scope",
    "Slots",
    "SlotsStatistics",
    "StopCallback",
    "Tasks",
    "abandoned_tasks",
    "abandoned_threads",
    "abandonments",
    "call_foreign",
    "call_in_task",
    "call_in_thread",
    "check_stop",
    "current_cause",
    "deadline",
    "finish",
    "graced",
    "loop_waker",
    "need",
    "on_stop",
    "outside_the_loop",
    "pending_cause",
    "tasks",
    "time_left",
    "wall_time",
]
