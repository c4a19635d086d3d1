"""The loop: what a run does next, and the doing of it.

`turn.py` the next step; `budget.py` what forbids it, `forecast.py` what a call may use, `shared_budget.py` the limits of
many runs, `warnings.py` the words before one is used up; `calling.py` a model call; `answering.py` the calls of a reply;
`rungs.py` what is decided about calls whose outcome is not known, `ladder.py` the looking and the writing for that; `log.py`
the state, the journal and the watchers in step; `outcome.py` how it ended and why; `looking_back.py` where and because of
what; `events.py` what watchers see; `toolbox.py` the tools of a run.
"""

from .events import Body, Event, ReasoningPiece, TextPiece, ToolProgress, ToolRunning, TurnStarted
from .outcome import EXIT_STATUS, Outcome, OutcomeKind, Report, describe, why
from .shared_budget import Budget, BudgetStatistics
from .toolbox import Approve, Doubt, Resolve

__all__ = [
    "EXIT_STATUS",
    "Approve",
    "Body",
    "Budget",
    "BudgetStatistics",
    "Doubt",
    "Event",
    "Outcome",
    "OutcomeKind",
    "ReasoningPiece",
    "Report",
    "Resolve",
    "TextPiece",
    "ToolProgress",
    "ToolRunning",
    "TurnStarted",
    "describe",
    "why",
]
