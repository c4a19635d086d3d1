"""An agent: a model, tools and limits, and the ways to set it to work."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, cast

import anyio

from ..causes import Cancelled, Stop
from ..errors import ConfigError, JournalError, WrongAnswer
from ..journal import Store, open_store
from ..journal.records import RunStarted
from ..journal.state import RunState
from ..loop.budget import check_price
from ..loop.final_answer import FinalAnswers
from ..loop.log import Log
from ..loop.outcome import Outcome, Report, describe
from ..loop.shared_budget import Budget
from ..loop.toolbox import Approve, Permit, Resolve, Toolbox, by_name
from ..loop.turn import Loop
from ..loop.warnings import limit_uses
from ..messages import Limits, Prompt, Sampling, Spend, UserMessage
from ..models import ChecksInputs, Model
from ..retry import RetryPolicy
from ..scopes import Slots, current_cause, finish, tasks
from ..tools import AnswerForm, FinalAnswer, Output, Sandbox, Tool, build_answer_form
from .arguments import check_arguments
from .checks import check_answer_form, settled_sampling
from .listening import listen
from .names import check_run_id
from .once import came_as_far, found_run, is_answered
from .opening import begin, take_up
from .permissions import Permissions
from .prompts import message_of
from .run import Run, carrying, cause_of
from .signals import Signals
from .watchers import Watchers

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=None)
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["Agent", "Result"]

RELEASE_SECONDS = 10.0
TOOL_SLOTS = 8  # calls of one agent at once; a reply rarely asks for more
MODEL_SLOTS = 256  # model calls of one agent at once
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: nothing that is misread


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Generic[T]):
    """What an answered run gives.

    Attributes:
        text: The model's answer; with `output=` its JSON.
        output: The answer as the type that the agent was given; None where it was given none.
        spend: Calls, tokens and dollars over all resumes.
    """

    text: str
    output: T
    run_id: str
    turns: int
    spend: Spend
    report: Report

    @property
    def cost_usd(self) -> Decimal:
        return self.spend.cost_usd


class Agent(Generic[T]):
    """A model with tools and limits. One agent may drive any number of runs at once.

    Args:
        model: What replies.
        tools: What it may call.
        output: What its answer has to be: a Pydantic model, a dataclass, a TypedDict, or an `Output`, which takes a JSON
            schema too. The model calls a tool with it, `final_answer`; an answer that does not fit goes back to it a few
            times. None takes any text.
        sampling: How the model shall write, over the model's own settings.
        system: What it is told before everything else.
        limits: What one run may use up.
        budget: What it may use up together with other runs, of this agent and of others that are given the same budget.
        store: Where runs are kept: a store, a SQLite file, or `postgresql://user@host/database`; as `open_store` by default.
        folder: The working folder of the tools; the current one by default.
        slots: Bounds tool calls at once; share one among agents to bound them together.
        retry: How model calls are retried.
        approve: Asked for each call of a tool that needs an approval; without it such a run waits.
        permit: Asked before: True lets a call run, a text denies it, None has `approve` asked; see `Permissions`.
        resolve: Asked about a call whose outcome its tool cannot tell, before the run waits: "done" with its result,
            "not_done" to run it again, "unknown" or None for a person (`Check`).
        on_unknown: What becomes of a call whose outcome no rung of the ladder can tell: the run waits for a person, or the
            model is told so.
        grace_seconds: How long work in flight may go on after a shutdown.
        sandbox: What tools with `isolate=True` are kept in (`find_sandbox()`); the report names it. Commands and tests are
            given theirs where they are made.

    Raises:
        ConfigError: When an argument is of another kind than its place takes, a tool cannot be used, a dollar limit could
            not be kept, no answer can be what `output` says, or the model does not have a setting.
    """

    def __init__(
        self,
        *,
        model: Model,
        tools: Sequence[Tool] = (),
        output: type[T] | Output[T] | None = None,
        sampling: Sampling | None = None,
        system: str = "",
        limits: Limits | None = None,
        budget: Budget | None = None,
        store: Store | str | Path | None = None,
        folder: Path | str | None = None,
        slots: Slots | None = None,
        retry: RetryPolicy | None = None,
        approve: Approve | None = None,
        permit: Permit | None = None,
        resolve: Resolve | None = None,
        on_unknown: Literal["wait", "tell_model"] = "wait",
        grace_seconds: float = 7.0,  # `docker stop` kills after ten
        sandbox: Sandbox | None = None,
    ) -> None:
        check_arguments(
            {
                "model": model, "tools": tools, "sampling": sampling, "system": system, "limits": limits, "budget": budget,
                "store": store, "folder": folder, "slots": slots, "retry": retry, "approve": approve, "permit": permit,
                "resolve": resolve, "on_unknown": on_unknown, "grace_seconds": grace_seconds, "sandbox": sandbox,
            }
        )  # fmt: skip
        self.model, self.system, self.limits = model, system, limits or Limits()
        self.budget = budget
        for each in (self.limits, budget.limits if budget else self.limits):
            check_price(each, model)
        self._form: AnswerForm[T] | None = None if output is None else build_answer_form(output)
        inside = Path(folder or ".").resolve()
        permit = permit.within(inside) if isinstance(permit, Permissions) else permit
        final = None if self._form is None or not self._form.tool else FinalAnswer(self._form)
        check_answer_form(model, self._form, with_tools=bool(tools))
        self._toolbox = Toolbox(
            tools=by_name(tools if final is None else [*tools, final]),
            final=final,
            folder=inside,
            slots=slots or Slots(TOOL_SLOTS, "tool slot"),
            approve=approve,
            permit=permit,
            rules=permit if isinstance(permit, Permissions) else None,
            resolve=resolve,
            sandbox=sandbox,
        )
        self._specs = self._toolbox.specs()
        self.sampling = settled_sampling(model, sampling, self._toolbox.tools, self._form)
        self._model_slots = Slots(MODEL_SLOTS, "model slot")
        self._retry = retry or RetryPolicy()
        self._on_unknown, self._grace_seconds = on_unknown, grace_seconds
        self._stores = _SharedStore(store)

    # --- whole runs ---------------------------------------------------------------------------------------------

    async def run(self, prompt: Prompt, *, run_id: str | None = None) -> Result[T]:
        """Run to the answer.

        A stop of the code around it stops the run, which is saved first.

        Raises:
            Stop, AgentError: Why there is no answer; `report` on it is the run as far as it came.
        """
        async with self.start(prompt, run_id=run_id) as run:
            outcome = await run.wait()
        return _result(outcome)

    async def resume(self, run_id: str, *, limits: Limits | None = None, say: Prompt | None = None) -> Result[T]:
        """Get a stopped, failed or killed run under way again, to the answer. Arguments and errors as in `reopen`."""
        async with self.reopen(run_id, limits=limits, say=say) as run:
            outcome = await run.wait()
        return _result(outcome)

    async def run_once(self, prompt: Prompt, *, run_id: str) -> Result[T]:
        """Run to the answer, once under this name: begun if there is no such run, gone on with if it has no answer yet.

        For a program that may be killed and asks again for the same, such as a tool that hands its call's work to another
        agent: `run_id=call.key`. An answer that is there already is given again without asking the model.

        Args:
            run_id: Its whole name, as in `start`.

        Raises:
            ConfigError: There is a run of that name with another task.
            RunTaken: Somebody drives it.
            Stop, AgentError: As `run`.
        """
        task = self._said(prompt, "the task")
        check_run_id(run_id)
        async with self._stores.opened() as store:
            found = await found_run(store, run_id, task)
            while True:
                if found is not None and is_answered(found):
                    return self._answer_of(found)
                opening = self.start(prompt, run_id=run_id) if found is None else self.reopen(run_id)
                async with AsyncExitStack() as stack:
                    try:
                        run = await stack.enter_async_context(opening)
                    except (JournalError, ConfigError) as error:
                        before, found = found, await found_run(store, run_id, task)
                        if came_as_far(before, found):
                            if found is not None:
                                error.report = Report.of(found, resumable=True)
                            raise
                        continue  # somebody else began it or has its answer, since it was looked at
                    outcome = await run.wait()
                return _result(outcome)

    def run_sync(self, prompt: Prompt, *, run_id: str | None = None) -> Result[T]:
        """Run to the answer, for scripts: it owns the loop and the signals, and closes the model's connections.

        Raises:
            Stop, AgentError: As `run`; Ctrl-C is `Interrupted`.
        """

        async def whole(signals: Signals) -> Outcome[T]:
            try:
                async with self.start(prompt, run_id=run_id) as run:
                    signals.hand_to(run.cancel)
                    return await run.wait()
            finally:
                await finish(RELEASE_SECONDS, self.model.aclose)

        with Signals() as signals:
            outcome = anyio.run(whole, signals)
        return _result(outcome)

    # --- handles ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def start(
        self, prompt: Prompt, *, run_id: str | None = None, settings: dict[str, Any] | None = None
    ) -> AsyncIterator[Run[T]]:
        """Start a run and get a handle on it. Leaving the block early stops the run with a cause.

        Args:
            prompt: The task: a text, or texts, images and files, such as `["What is this?", Image.from_file("x.png")]`.
            run_id: Its name, up to 64 letters, digits, "-", "_" and "."; a new one by default.
            settings: Kept with the run, for whoever resumes it.

        Raises:
            ConfigError: When the task is none, or has an image or a file that the model does not take.
            JournalError: When the run cannot be written, or there is one of that name.
            ConfigError: When the name is none.
        """
        task = self._said(prompt, "the task")
        if run_id is not None:
            check_run_id(run_id)
        async with self._stores.opened() as store:
            watchers = Watchers()
            started = self._started(task, run_id or new_run_id(), settings or {})
            log = await begin(store, started, watchers.publish, sandbox=self._toolbox.sandbox_name)
            async with self._driven(store, log, watchers) as run:
                yield run

    @asynccontextmanager
    async def reopen(self, run_id: str, *, limits: Limits | None = None, say: Prompt | None = None) -> AsyncIterator[Run[T]]:
        """Take an old run up again and get a handle on it. Settled calls are not run again.

        Args:
            run_id: Its name, or the beginning of it.
            limits: New limits for the whole run, what was spent before included; those that it had by default.
            say: Something new to tell the model; a run that has its answer needs it.

        Raises:
            RunNotFound, RunTaken, JournalNewer, JournalDamaged: When the run cannot be taken up.
            ConfigError: When it has its answer and there is nothing new to say, a dollar limit could not be kept, or its
                answer has to fit a form and this agent has none.
        """
        check_arguments({"limits": limits})
        said = None if say is None else self._said(say, "what is said")
        async with self._stores.opened() as store:
            watchers = Watchers()
            log = await take_up(
                store,
                run_id,
                watchers.publish,
                model=self.model,
                limits=limits,
                say=said,
                sampling=self.sampling,
                answer=self._fingerprint,
                sandbox=self._toolbox.sandbox_name,
                tools=tuple(self._toolbox.tools),
                folder=self._toolbox.folder,
            )
            async with self._driven(store, log, watchers) as run:
                yield run

    def _answer_of(self, state: RunState) -> Result[T]:
        """The answer that a run has, as the form that this agent has it."""
        answers: FinalAnswers = FinalAnswers(self._form)
        if (rejected := answers.rejection(state)) is not None:
            raise WrongAnswer(rejected.problem)
        report = Report.of(state, limits=limit_uses(state, state.seconds), resumable=False)
        return _result(Outcome(kind="answered", text=state.answer or "", output=answers.value, report=report))

    async def aclose(self) -> None:
        """Close the model's connections."""
        await self.model.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await finish(RELEASE_SECONDS, self.aclose)

    # --- opening ------------------------------------------------------------------------------------------------

    def _said(self, prompt: Prompt, what: str) -> UserMessage:
        """A prompt as a message, once it is clear that the model takes it."""
        message = message_of(prompt, what)
        if message.parts and isinstance(self.model, ChecksInputs):
            self.model.check_inputs(message.parts)
        return message

    def _started(self, task: UserMessage, run_id: str, settings: dict[str, Any]) -> RunStarted:
        return RunStarted(
            run_id=run_id,
            task=task.content,
            parts=task.parts,
            system=self.system,
            model=self.model.name,
            folder=str(self._toolbox.folder),
            tools=tuple(self._toolbox.tools),
            limits=self.limits,
            on_unknown=self._on_unknown,
            settings=settings,
            sampling=self.sampling,
            answer=self._fingerprint,
        )

    @property
    def _fingerprint(self) -> str:
        return "" if self._form is None else self._form.fingerprint

    @asynccontextmanager
    async def _driven(self, store: Store, log: Log, watchers: Watchers) -> AsyncIterator[Run[T]]:
        """The run in a task of its own, for as long as the block lasts; what it leaves early is stopped."""
        loop = Loop(
            log,
            self.model,
            self._toolbox,
            self._specs,
            self._retry,
            self._model_slots,
            self.budget,
            FinalAnswers(self._form),
            self.sampling,
        )
        run: Run[T] = Run(log, watchers, loop, grace_seconds=self._grace_seconds, budget=self.budget)
        with carrying(run.report):
            async with tasks() as group:
                group.start_soon(run.drive, name=f"run {run.id}")
                group.start_soon(listen, run, store, log.state.epoch, name=f"listening for run {run.id}")
                try:
                    yield run
                except BaseException as error:
                    run.cancel(_why_left(error))
                    raise
                run.cancel(Cancelled("the block that started the run was left", "the program"))


class _SharedStore:
    """The agent's store: the user's, or one of its own that is open while runs are under way."""

    def __init__(self, given: Store | str | Path | None) -> None:
        self._place = given if isinstance(given, str | Path) else None
        self._given = None if isinstance(given, str | Path) else given
        self._users = 0
        if self._place is not None:
            open_store(self._place)  # which opens nothing yet, and refuses what is no place
        self._own: Store | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        if self._given is not None:
            yield self._given
            return
        self._own = self._own or open_store(self._place)
        self._users += 1
        store = self._own
        try:
            yield store
        finally:
            self._users -= 1
            if not self._users:
                self._own = None
                await finish(RELEASE_SECONDS, store.aclose)


def new_run_id() -> str:
    """A new name for a run: ten letters and digits, short enough to be typed and never made twice in practice."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(10))


def _why_left(error: BaseException) -> Stop:
    """The cause of a run whose block raised: what stopped the block, if it was that."""
    cause = cause_of(error, current_cause())
    if cause is not error and isinstance(cause, Stop):
        return cause
    return Cancelled(f"the block that started the run failed: {describe(error)}", "the program")


def _result(outcome: Outcome[T]) -> Result[T]:
    if outcome.kind != "answered":
        raise outcome.cause or outcome.error or AssertionError(outcome)
    report = outcome.report
    output = cast("T", outcome.output)
    return Result(
        text=outcome.text, output=output, run_id=report.run_id, turns=report.turns, spend=report.spend, report=report
    )
