"""What a server asks a person in the middle of a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

__all__ = ["Elicit", "Question", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A server's question. It comes from the server: show who asks, and never answer with a key.

    Attributes:
        schema: The JSON schema of the answer's fields; None when it is about an address.
        url: An address that the person is to open.
    """

    server: str
    message: str
    schema: Mapping[str, Any] | None = None
    url: str | None = None


Elicit: TypeAlias = Callable[[Question], Awaitable[Mapping[str, Any] | None]]  # the answer's fields; None declines


async def answer(elicit: Elicit, server: str, params: ElicitRequestParams) -> ElicitResult:
    """Put a server's question to whoever answers."""
    from mcp_types import ElicitRequestFormParams, ElicitResult

    form = params if isinstance(params, ElicitRequestFormParams) else None
    schema = form.requested_schema if form is not None else None
    question = Question(
        server=server, message=params.message, schema=schema, url=None if form is not None else getattr(params, "url", None)
    )
    fields = await elicit(question)
    if fields is None:
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=dict(fields) if form is not None else None)
