"""Pydantic AI on DBOS: the run is a workflow, the effect a step, and a new process takes pending workflows up by itself."""

from __future__ import annotations

import asyncio
from typing import Any

from crash_points import Outside
from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

__all__ = ["live"]

RUN = "run"


def live(outside: Outside) -> str:
    DBOS(
        config={
            "name": "maxfired",
            "system_database_url": f"sqlite:///{outside.folder}/dbos.db",
            "run_admin_server": False,
            "log_level": "ERROR",
        }
    )

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        outside.note_asked()
        if any(isinstance(part, ToolReturnPart) for message in messages for part in message.parts):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("charge", {"dollars": 5}, "call_1")])

    agent = Agent(FunctionModel(reply), name="charging", capabilities=[DBOSDurability()])

    @agent.tool_plain
    @DBOS.step()
    async def charge(dollars: int) -> str:
        """Charge the customer."""
        return outside.charge()

    @DBOS.workflow()
    async def run(prompt: str) -> str:
        result = await agent.run(prompt)
        return result.output

    return asyncio.run(_live(run))


async def _live(run: Any) -> str:
    DBOS.launch()
    try:
        if await DBOS.get_workflow_status_async(RUN) is None:
            with SetWorkflowID(RUN):
                answer = await run("charge the customer 5 dollars")
        else:
            handle: Any = await DBOS.retrieve_workflow_async(RUN)
            answer = await handle.get_result()
    finally:
        DBOS.destroy()
    return "answered" if answer == "done" else f"ended with {answer}"
