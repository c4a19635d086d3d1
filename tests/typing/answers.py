"""Read by type checkers, never run: what an agent's answer is, and which uses are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from pydantic import BaseModel
from typing_extensions import TypedDict

from heaveto import Agent, Outcome, Output, Result, Run, Sampling, why
from heaveto.models import Model


class Report(BaseModel):
    title: str


@dataclass
class Point:
    x: int


class Pair(TypedDict):
    left: str


async def use(model: Model, schema: dict[str, Any]) -> None:
    assert_type((await Agent(model=model).run("go")).output, None)
    assert_type((await Agent(model=model, output=Report).run("go")).output, Report)
    assert_type((await Agent(model=model, output=Point).run("go")).output, Point)
    assert_type((await Agent(model=model, output=Pair).run("go")).output, Pair)
    assert_type((await Agent(model=model, output=list[int]).run("go")).output, list[int])
    assert_type(Agent(model=model, output=Output(Report, native=True)).run_sync("go"), Result[Report])
    assert_type((await Agent(model=model, output=Output(schema)).resume("run")).output, Any)
    assert_type((await Agent(model=model, output=Output({"type": "object"})).resume("run")).output, Any)
    async with Agent(model=model, output=Report, sampling=Sampling(temperature=0, stop="x")).start("go") as run:
        assert_type(run, Run[Report])
        outcome = await run.wait()
        assert_type(outcome, Outcome[Report])
        assert_type(outcome.output, Report | None)
        why(outcome)

    Agent(model=model, output=3)  # type: ignore[arg-type]
    Agent(model=model, output="a text")  # type: ignore[arg-type]
    Sampling(effort="huge")  # type: ignore[arg-type]
    Output(Report, corrections="many")  # type: ignore[call-overload]


def without(agent: Agent) -> Agent[Any]:
    return agent
