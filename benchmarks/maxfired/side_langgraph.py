"""LangGraph with its SQLite saver: each step is saved before the next begins, and the effect is a task."""

from __future__ import annotations

import warnings
from typing import Any

from crash_points import Outside
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import task
from langgraph.prebuilt import create_react_agent

__all__ = ["live"]


class Model(BaseChatModel):
    outside: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **settings: Any) -> ChatResult:
        self.outside.note_asked()
        if any(isinstance(message, ToolMessage) for message in messages):
            answer = AIMessage("done")
        else:
            answer = AIMessage("", tool_calls=[{"name": "charge", "args": {"dollars": 5}, "id": "call_1"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def live(outside: Outside) -> str:
    @task
    def at_the_bank(dollars: int) -> str:
        return outside.charge()

    @tool
    def charge(dollars: int) -> str:
        """Charge the customer."""
        return at_the_bank(dollars).result()

    config: Any = {"configurable": {"thread_id": "run"}}
    with SqliteSaver.from_conn_string(str(outside.folder / "checkpoints.db")) as saver:
        with warnings.catch_warnings(action="ignore"):
            graph = create_react_agent(Model(outside=outside), [charge], checkpointer=saver)
        task_of: Any = {"messages": [("user", "charge the customer 5 dollars")]}
        if graph.get_state(config).created_at is None:
            graph.invoke(task_of, config, durability="sync")
        elif not _is_answered(graph.get_state(config)):
            graph.invoke(None, config, durability="sync")  # also where a step's writes are there and `next` is empty
        state = graph.get_state(config)
    return "answered" if _is_answered(state) else f"ended with {state.values}"


def _is_answered(state: Any) -> bool:
    messages = state.values.get("messages") or [None]
    return isinstance(messages[-1], AIMessage) and messages[-1].content == "done"
