"""What the loop asks of a model: one method, which opens a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any, Protocol, runtime_checkable

import msgspec

from ..errors import ConfigError
from ..messages import Delta, Part, Reply, Sampling, Transcript, Usage

__all__ = [
    "AnswerSchema",
    "ChecksInputs",
    "ChecksSettings",
    "Model",
    "ModelStream",
    "Priced",
    "Request",
    "ToolSpec",
    "checked",
]


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model is told of it; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


class AnswerSchema(msgspec.Struct, frozen=True):
    """What an answer has to look like; `schema` is the JSON schema of an object."""

    name: str
    schema: Mapping[str, Any]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One model call.

    Attributes:
        max_output_tokens: The most that there is room for; None leaves it to the API.
        sampling: How the model shall write, over what its own settings say.
        answer: What the API shall hold the answer to; a reply with tool calls is none.
    """

    transcript: Transcript
    tools: Sequence[ToolSpec] = ()
    max_output_tokens: int | None = None
    sampling: Sampling = Sampling()
    answer: AnswerSchema | None = None

    @property
    def output_limit(self) -> int | None:
        """The most output tokens to ask for, whoever wants it so; None leaves it to the API."""
        room, wanted = self.max_output_tokens, self.sampling.max_tokens
        return wanted if room is None else room if wanted is None else min(room, wanted)


class ModelStream(Protocol):
    """A reply on its way: iterate over its deltas, then read `reply`.

    Iterating raises the call's own causes and errors. `spent` is right at every moment, also after a cut: what the API
    reported, else an estimate from what came, flagged as one.
    """

    @property
    def spent(self) -> Usage: ...

    @property
    def reply(self) -> Reply:
        """The whole reply; after the iteration has ended, not before."""
        ...

    def __aiter__(self) -> AsyncIterator[Delta]: ...

    async def __anext__(self) -> Delta: ...


class Model(Protocol):
    """A model that can be called."""

    @property
    def name(self) -> str:
        """ "provider:model", as people type it."""
        ...

    @property
    def reports_cost(self) -> bool:
        """Whether the API tells what a call cost."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[ModelStream]:
        """One call. The request goes out when the iteration begins; leaving the block early closes the connection.

        Raises:
            APIError: The API refused.
            TransportFailed: The network failed.
            CallTimeout, ConnectTimeout, StreamIdle: A limit of this call passed.
            BadReply: (a member of it) while iterating, when the reply cannot be used.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections. A model may be used by many runs at once; whoever made it closes it."""
        ...


@runtime_checkable
class ChecksInputs(Protocol):
    """A model that tells which images and files it takes before anything is sent."""

    def check_inputs(self, parts: Sequence[Part]) -> None:
        """Pass, or refuse.

        Raises:
            ConfigError: It does not take one of them.
        """
        ...


@runtime_checkable
class ChecksSettings(Protocol):
    """A model that tells which settings it has, and whether it can hold an answer to a schema, before anything is sent."""

    @property
    def sampling(self) -> Sampling:
        """Its own settings, which hold where a request says nothing."""
        ...

    def check_sampling(self, sampling: Sampling) -> None:
        """Pass, or refuse.

        Raises:
            ConfigError: It has no such setting, or a value is out of its range.
        """
        ...

    def check_answer(self, answer: AnswerSchema, *, with_tools: bool) -> None:
        """Pass, or refuse.

        Args:
            with_tools: Whether the model shall have tools too.

        Raises:
            ConfigError: It cannot hold an answer to this schema.
        """
        ...


@runtime_checkable
class Priced(Protocol):
    """A model that can tell what a call would cost, before it is made. Without it a call's own cost is only known after."""

    @property
    def largest_output(self) -> int | None:
        """The most output tokens of a call that does not ask for fewer; None where nobody knows."""
        ...

    @property
    def least_output(self) -> int:
        """The fewest output tokens that may be asked for; 0 where any number may."""
        ...

    def cost(self, usage: Usage) -> Decimal | None:
        """Dollars for a call that uses so much; None where nobody knows."""
        ...


def checked(model: Model) -> ChecksSettings:
    """The model as one that tells which settings it has.

    Raises:
        ConfigError: It does not tell.
    """
    if isinstance(model, ChecksSettings):
        return model
    raise ConfigError(
        f"{model.name} does not say which settings it has",
        "give it check_sampling and check_answer (heaveto.models.ChecksSettings), or set them where it is made",
    )
