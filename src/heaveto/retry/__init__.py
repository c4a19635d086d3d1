"""Trying again: `classify.py` whether it can help, `policy.py` how often and after how long, `loop.py` the loop around it.

There is one retry layer: the agent's loop retries a model call, the clients below it do not.
"""

from .classify import Decision, classify
from .loop import Attempt, RetryNotice, retrying
from .policy import RetryPolicy

__all__ = ["Attempt", "Decision", "RetryNotice", "RetryPolicy", "classify", "retrying"]
