"""Small tests that users' reports about agents gave, where no other test says it."""

from __future__ import annotations

from typing import Any

import pytest

from heaveto.errors import APIError
from heaveto.journal import MemoryStore
from heaveto.retry import RetryPolicy, retrying
from heaveto.runs import Agent
from heaveto.testing.scripted_model import calls, scripted
from heaveto.tools import tool

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "error", [ConnectionResetError("reset by peer"), TimeoutError("timed out"), APIError("p", 503, "busy")]
)
async def test_a_tool_that_did_its_effect_and_then_fails_in_passing_is_not_repeated(drive: Any, error: Exception) -> None:
    """What passes may be tried again by whoever knows that nothing was done; the loop does not."""
    mails = []

    @tool(effect="write")
    async def send_mail() -> str:
        """Send a mail."""
        mails.append("mail")
        raise error

    driven = await drive(calls(("send_mail", {})), "fine", tools=[send_mail])
    assert mails == ["mail"]
    assert len(driven.answers) == 1


async def test_no_retry_layer_repeats_the_effect_of_a_tool(drive: Any) -> None:
    """The model call behind it is retried, the run under it too: the effect is there once."""
    mails = []

    @tool(effect="write")
    async def send_mail() -> str:
        """Send a mail."""
        mails.append("mail")
        return "sent"

    busy = APIError("p", 503, "busy")
    driven = await drive(calls(("send_mail", {})), busy, busy, "fine", tools=[send_mail], retry=RetryPolicy(base_seconds=0))
    assert (driven.outcome.text, mails) == ("fine", ["mail"])
    again = await drive(
        busy, "fine too", tools=[send_mail], resume="run", store=driven.store, retry=RetryPolicy(base_seconds=0),
        resume_options={"say": "go on"},
    )  # fmt: skip
    assert (again.outcome.text, mails) == ("fine too", ["mail"])


async def test_three_layers_of_retries_make_no_more_requests_than_the_innermost() -> None:
    busy = APIError("p", 429, "slow down", 2.0)
    model = scripted(*[busy] * 50)
    policy = RetryPolicy(attempts=3, base_seconds=0)

    async def run(attempt: object) -> Any:
        return await Agent(model=model, store=MemoryStore(), retry=policy).run("hello")

    async def twice(attempt: object) -> Any:
        return await retrying(run, policy)

    with pytest.raises(Exception, match="gave up after 3 attempts"):
        await retrying(twice, policy)
    assert len(model.requests) == 3
