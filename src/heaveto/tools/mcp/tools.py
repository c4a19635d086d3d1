"""A tool of a server, as a tool of ours."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import BadArguments, OutcomeUnknown, ToolError, ToolFatal
from ..json_text import NotArguments, decode_arguments
from ..protocol import Call, Check, Effect, Facts
from ..results import WithMedia, cut_middle
from ..surrogates import replace_surrogates
from .http import meaning_of
from .link import Connection, Link
from .questions import answer
from .results import result_text
from .streams import Departure, departing

if TYPE_CHECKING:
    from mcp import MCPError
    from mcp_types import CallToolResult, ElicitRequest, InputRequiredResult, InputResponses, Tool
    from pydantic import TypeAdapter

    from .questions import Elicit

__all__ = ["McpTool"]

MAX_NAME = 64  # what the model APIs accept
MAX_QUESTION = 2_000  # characters of what a server asks, where it is only told of
MAX_ROUNDS = 10  # of questions in one call
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")


class McpTool:
    """A tool of a server. Its name is `server__tool`.

    A call whose answer never came counts as one that may have taken effect, unless the server is trusted to say that the
    tool only reads or is idempotent.
    """

    def __init__(self, link: Link, offered: Tool, *, approval: bool, elicit: Elicit | None = None) -> None:
        self._link, self._offered, self._elicit = link, offered, elicit
        self.name = tool_name(link.name, offered.name)
        self.description = replace_surrogates(offered.description or offered.title or offered.name)
        self.schema: Mapping[str, Any] = {"type": "object", "properties": {}, **offered.input_schema}
        self.effect: Effect = _effect(offered) if link.config.options.trust_hints else "write"
        self.alone = self.effect != "read"
        self.approval = approval and self.effect != "read"
        self.seconds = link.config.options.call_seconds

    def __repr__(self) -> str:
        return f"<tool {self.name} ({self.effect})>"

    def parse(self, arguments: str) -> Mapping[str, Any]:
        """The arguments from the model's JSON text. What the server asks of them beyond names it says itself.

        Raises:
            BadArguments: They are no JSON object, or a field is missing or unknown.
        """
        try:
            parsed = decode_arguments(arguments)
        except NotArguments as error:
            raise BadArguments(self.name, str(error)) from error
        known, needed = self.schema["properties"], self.schema.get("required", ())
        problems = [f'missing field "{name}"' for name in needed if name not in parsed]
        if self.schema.get("additionalProperties") is False:
            problems += [f'unknown field "{name}"' for name in parsed if name not in known]
        if problems:
            fields = f"the fields are {', '.join(sorted(known))}" if known else "there are no fields"
            raise BadArguments(self.name, f"{'; '.join(problems)}; {fields}")
        return parsed

    async def plan(self, call: Call, arguments: Mapping[str, Any]) -> Facts:
        return {}

    async def check(self, call: Call, arguments: Mapping[str, Any]) -> Check | None:
        return None

    async def run(self, call: Call, arguments: Mapping[str, Any]) -> str:
        """Call it. On a stop the server is told, with the cause.

        A call that cannot have reached the server is made once more, on a new connection.

        Raises:
            ToolError: The server says that it went wrong.
            ToolFatal: The server cannot be reached, or went away in a call that changes nothing.
            OutcomeUnknown: The server or the stream went away in a call that may change something.
        """
        from mcp import MCPError

        for last in (False, True):
            connection = await self._link.connection()
            with departing() as departure:
                try:
                    return _with_news(self._result(await self._ask(connection, call, arguments)), connection)
                except MCPError as error:
                    if not _never_arrived(error, departure):
                        raise await self._failure(error, call, connection) from error
                    self._link.drop(connection)
                    if last:
                        raise ToolFatal(self._link.label, error.message) from error
                except ValueError as error:  # pydantic's, among others
                    raise ToolError(f"{self._link.label} answered in a way that cannot be read") from error
        raise AssertionError("the second try returns or raises")

    def _result(self, result: CallToolResult) -> str:
        text = result_text(result)
        if result.is_error:
            raise ToolError(text if result.content else f"{self.name} failed and did not say why")
        return text

    async def _ask(self, connection: Connection, call: Call, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call the tool, answering what the server asks on the way."""
        from mcp_types import CallToolResult

        answers: InputResponses | None = None
        state: str | None = None
        for _ in range(MAX_ROUNDS):
            result = await self._send(connection, call, arguments, answers, state)
            if isinstance(result, CallToolResult):
                return result
            answers = {key: await self._answer(each) for key, each in (result.input_requests or {}).items()}
            state = result.request_state
        raise ToolError(f"{self._link.label} asked more than {MAX_ROUNDS} times for something in one call")

    async def _send(
        self,
        connection: Connection,
        call: Call,
        arguments: Mapping[str, Any],
        answers: InputResponses | None,
        state: str | None,
    ) -> CallToolResult | InputRequiredResult:
        from mcp_types import CallToolRequest, CallToolRequestParams

        params = CallToolRequestParams(
            name=self._offered.name, arguments=dict(arguments), input_responses=answers, request_state=state
        )
        assert connection.session is not None, "it was ready"  # noqa: S101 - for the type checker

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            call.progress(_progress_text(progress, total, message))

        return await connection.session.send_request(CallToolRequest(params=params), _results(), progress_callback=tell)

    async def _answer(self, request: ElicitRequest | Any) -> Any:
        from mcp_types import ElicitRequest

        if not isinstance(request, ElicitRequest):
            raise ToolError(f"{self._link.label} asked for {request.method}, which heaveto does not offer")
        if self._elicit is None:
            asked = cut_middle(request.params.message, MAX_QUESTION)
            raise ToolError(f'{self._link.label} asked "{asked}", and nobody is there to answer: it counts as declined')
        return await answer(self._elicit, self._link.name, request.params)

    async def _failure(self, error: MCPError, call: Call, connection: Connection) -> Exception:
        """What becomes of a call whose request ended in an error."""
        from mcp_types import CONNECTION_CLOSED

        meaning = meaning_of(error.data)
        if meaning == "refused":
            return ToolFatal(self._link.label, error.message)
        if meaning != "lost" and error.code != CONNECTION_CLOSED:
            return ToolError(cut_middle(f"{self.name}: {error.message}"))
        is_dead = connection.closing.is_set()
        if is_dead:
            await connection.gone.wait()
        why = f"{self._link.label} was lost: {connection.problem or error.message}"
        if self.effect == "write":
            return OutcomeUnknown(self.name, call.call_id, why)
        if is_dead:
            return ToolFatal(self._link.label, connection.problem or error.message)
        return ToolError(f"{why}; nothing is lost by trying again")


@functools.cache
def _results() -> TypeAdapter[CallToolResult | InputRequiredResult]:
    """What a call may end in; made once, since that takes longer than a call."""
    from mcp_types import CallToolResult, InputRequiredResult
    from pydantic import TypeAdapter

    return TypeAdapter(CallToolResult | InputRequiredResult)


def _with_news(text: str, connection: Connection) -> str:
    """The result, with what the server has changed behind it; one with images waits for the next."""
    if not connection.news or isinstance(text, WithMedia):
        return text
    return f"{text}\n({connection.take_news()})"


def tool_name(server: str, tool: str) -> str:
    """The name that the model calls it by: with what the APIs accept, and a part of a hash where that loses something."""
    plain = _NOT_IN_A_NAME.sub("_", tool)
    name = f"{server}__{plain}"
    if plain == tool and len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 9]}_{hashlib.sha256(tool.encode(errors='replace')).hexdigest()[:8]}"


def _effect(offered: Tool) -> Effect:
    """The effect by the server's own hints."""
    hints = offered.annotations
    if hints is not None and hints.read_only_hint:
        return "read"
    return "idempotent" if hints is not None and hints.idempotent_hint else "write"


def _never_arrived(error: MCPError, departure: Departure) -> bool:
    """Whether the server cannot have begun: it was not there, or does not know the session any more."""
    from mcp_types import CONNECTION_CLOSED

    meaning = meaning_of(error.data)
    return meaning in ("not_sent", "session_gone") or (
        meaning is None and error.code == CONNECTION_CLOSED and not departure.sent
    )


def _progress_text(progress: float, total: float | None, message: str | None) -> str:
    if message:
        return message
    return f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
