"""A model behind an API, in any dialect: requests out, deltas in, with limits, errors, usage and cost.

The rules of this file:
- A request goes out when the iteration begins, so that whoever iterates holds the stream, and with it what was spent,
  whatever happens to the request.
- What was spent is never forgotten: the API's figures, also those that it gives afterwards, else an estimate from what
  came, flagged as one.
- Keys go into the headers and nowhere else.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from decimal import Decimal
from functools import cached_property
from typing import Self, TypeVar
from urllib.parse import quote

import msgspec

from ..errors import AgentError, APIError, BadReply, ConfigError, IncompleteStream, TransportFailed
from ..messages import Delta, Part, Reply, Sampling, Usage
from ..scopes import RateLimit, Scope, finish, pending_cause, wall_time
from .blotting import blotted
from .decoder import ReplyDecoder
from .dialect import ANY_OUTPUT, Dialect, OutputBounds
from .error_bodies import api_error
from .exchange import Answer, Exchange, HTTPRequest, check_header, exchange_named, shown_address
from .inputs import NOTHING, Takes, estimated_tokens
from .limits import CallLimits, Watchdog, watched
from .prices import Price, listed_cost
from .protocol import AnswerSchema, Request
from .sampling_rules import NO_RULES, SamplingRules
from .spend_afterwards import ASK_SECONDS, ask_spend

__all__ = ["RemoteModel", "RemoteStream"]

E = TypeVar("E", bound=AgentError)

CLOSE_SECONDS = 2.0  # closing a connection does not wait for the other side
DRAIN_SECONDS = 1.0  # reading on after the reply keeps the connection; a new one costs less than waiting longer
DRAIN_BYTES = 1024 * 1024  # likewise
MAX_REPLY_CHARACTERS = 8_000_000  # of one reply: some ten times what any model writes; a server may go on for ever
MAX_REPLY_PIECES = 2_000_000  # of a few letters each, so that the same holds for them
MAX_ERROR_BYTES = 256 * 1024  # of an error's body
CHARACTERS_PER_TOKEN = 4  # of text that a model writes


class RemoteModel:
    """One model of one provider, in the provider's dialect. Any number of runs may use it at once.

    Args:
        dialect: The API, and the model at it.
        base_url: The API's address, to which the dialect's path is added.
        key: The API key; None sends none.
        headers: Further headers; they may hold keys, so they are not shown either.
        limits: Time limits of a call.
        price: Dollars for a million tokens, where the API does not say what a call costs.
        api_reports_cost: Whether it does.
        exchange: How requests are sent, or the name of the library: "httpx2" or "aiohttp"; httpx2 by default.
        price_provider: The provider's name in the price table, which is loaded when it is first asked; empty for none.
        rate: How much may be asked per time, shared by as many models as one likes. Every attempt takes its turn before it
            is sent, with an estimate of its tokens that is corrected when they are known.
        spend_path: Where the API tells afterwards what a call cost that was cut, up to the reply's id; empty where it
            does not. It is asked for a few seconds at most, also while the code around is being stopped.
        sampling: How the model shall write, where a request does not say it.

    Raises:
        ConfigError: When the API does not have one of the settings.
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        base_url: str,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        limits: CallLimits | None = None,
        price: Price | None = None,
        api_reports_cost: bool = False,
        exchange: Exchange | str | None = None,
        price_provider: str = "",
        rate: RateLimit | None = None,
        spend_path: str = "",
        sampling: Sampling | None = None,
    ) -> None:
        self.dialect = dialect
        self.model, self.provider, self.streamed = dialect.model, dialect.provider, dialect.streamed
        self.limits, self.rate = limits or CallLimits(), rate
        self.price, self._api_reports_cost = price, api_reports_cost
        self._price_provider = price_provider
        self.url = _endpoint(base_url, dialect.path)
        self._base_url, self._spend_path = base_url, spend_path
        self._headers = _headers(dialect, key, headers)
        self._secret = key
        self._output: OutputBounds = getattr(dialect, "output", ANY_OUTPUT)
        self._exchange = exchange_named(exchange) if isinstance(exchange, str) else exchange
        self.sampling = sampling or Sampling()
        self.check_sampling(self.sampling)

    def __repr__(self) -> str:
        return f"<RemoteModel {self.name} at {shown_address(self.url)}>"

    @property
    def name(self) -> str:
        """ "provider:model", as people type it."""
        return f"{self.provider}:{self.model}"

    @property
    def reports_cost(self) -> bool:
        """Whether a call's cost will be known: the API tells it, or there is a price."""
        return self._api_reports_cost or self._has_price

    @cached_property
    def _has_price(self) -> bool:
        return self.cost(Usage(input_tokens=1)) is not None

    @property
    def largest_output(self) -> int | None:
        """The most output tokens of a call that does not ask for fewer; None where nobody knows."""
        known = [limit for limit in (self._output.largest, self.sampling.max_tokens) if limit is not None]
        return min(known, default=None)

    @property
    def least_output(self) -> int:
        """The fewest output tokens that may be asked for, such as what a `thinking` option takes."""
        return self._output.least

    def cost(self, usage: Usage) -> Decimal | None:
        """Dollars by the price that was given, else by the table; None where neither knows."""
        if self.price is not None:
            return self.price.cost(usage)
        return listed_cost(usage, self.model, self._price_provider) if self._price_provider else None

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[RemoteStream]:
        """One call. The request goes out when the iteration begins; leaving early closes the connection.

        Raises:
            APIError: The API refused.
            TransportFailed: The network failed.
            CallTimeout, ConnectTimeout, StreamIdle: A limit of this call passed; raised on leaving.
            BadReply: (a member of it) when the reply cannot be used.
        """
        if self.sampling:
            request = msgspec.structs.replace(request, sampling=request.sampling.over(self.sampling))
        with watched(self.limits, streamed=self.streamed) as watchdog:
            stream = RemoteStream(self, request, watchdog)
            try:
                yield stream
            finally:
                try:
                    if stream.is_open:
                        await finish(CLOSE_SECONDS, stream.close)
                    if (asking := stream.spend_request()) is not None:
                        stream.told = await finish(ASK_SECONDS + CLOSE_SECONDS, ask_spend, self.exchange, asking)
                finally:
                    stream.correct_rate()

    def check_inputs(self, parts: Sequence[Part]) -> None:
        """Refuse images and files that the API does not take; a dialect that says nothing of them takes none.

        Raises:
            ConfigError: It does not take one of them.
        """
        takes: Takes = getattr(self.dialect, "takes", NOTHING)
        takes.check(parts, self.provider)

    def check_sampling(self, sampling: Sampling) -> None:
        """Refuse settings that the API does not have, or that are out of its range.

        Raises:
            ConfigError: With the setting's name, and what there is instead.
        """
        rules: SamplingRules = getattr(self.dialect, "sampling", NO_RULES)
        rules.check(sampling, self.name)

    def check_answer(self, answer: AnswerSchema, *, with_tools: bool) -> None:
        """Refuse a schema that the API holds no answer to.

        Raises:
            ConfigError: With the way out.
        """
        check = getattr(self.dialect, "check_answer", None)
        if check is None:
            raise ConfigError(
                f"{self.name} holds no answer to a schema", "leave native=True out: the final tool always works"
            )
        check(answer, with_tools=with_tools)

    async def aclose(self) -> None:
        """Close the connections. A later call opens new ones."""
        if self._exchange is not None:
            await self._exchange.aclose()

    @property
    def exchange(self) -> Exchange:
        """How requests are sent."""
        if self._exchange is None:
            self._exchange = exchange_named("httpx2")  # loaded with the first call
        return self._exchange

    def through(self, exchange: Exchange) -> Self:
        """The same model with its requests sent through another exchange."""
        other = copy.copy(self)
        other._exchange = exchange
        return other

    def http_request(self, body: bytes) -> HTTPRequest:
        return HTTPRequest("POST", self.url, self._headers, body)

    def spend_request(self, reply_id: str) -> HTTPRequest | None:
        """The request that asks what a reply cost; None where the API does not tell."""
        if not self._spend_path:
            return None
        headers = {name: value for name, value in self._headers.items() if name != "content-type"}
        url = _endpoint(self._base_url, self._spend_path + quote(reply_id, safe=""))
        return HTTPRequest("GET", url, headers | {"accept": "application/json"}, b"")

    def refusal(self, answer: Answer, body: bytes) -> APIError:
        """The error of an answer that is not a 2xx; a key that the API repeats is blotted out."""
        if 300 <= answer.status < 400:
            target = _shown_target(answer.headers.get("location", ""))
            told = f"redirected to {target}; give the API's own address as base_url"
            return self.blotted(APIError(self.provider, answer.status, told))
        if self._secret:  # also here, before a text is cut to what can be shown
            body = body.replace(self._secret.encode(), b"***")
        return self.blotted(api_error(self.provider, answer.status, answer.headers, body, wall_time()))

    def blotted(self, error: E) -> E:
        """The error without the key, which some APIs repeat."""
        return blotted(error, self._secret)


class RemoteStream:
    """A reply on its way: iterate over its deltas, then read `reply`. Made by `RemoteModel.stream`.

    Attributes:
        told: What the API told of a call that was cut, when it was asked afterwards.
    """

    def __init__(self, model: RemoteModel, request: Request, watchdog: Watchdog) -> None:
        self._model, self._request, self._watchdog = model, request, watchdog
        self._body = b""
        self.told: Usage | None = None
        self._booked_tokens: int | None = None
        self._answer: Answer | None = None
        self._decoder: ReplyDecoder | None = None
        self._ready: deque[Delta] = deque()
        self._sent = self._refused = False
        self._body_over = self._complete = False  # the connection was given back; no more is read
        self._reply: Reply | None = None

    @property
    def spent(self) -> Usage:
        """What the call has used so far: the API's figures, else an estimate from what came."""
        if self.told is not None:
            return self.told
        decoder = self._decoder
        if decoder is not None and decoder.usage is not None and decoder.counted:
            return self._priced(decoder.usage, decoder.billed_output_tokens)
        if not self._sent or self._refused:
            return Usage(cost_usd=Decimal(0))
        estimate = self._estimate(decoder)
        return self._priced(estimate, estimate.output_tokens)

    def spend_request(self) -> HTTPRequest | None:
        """The request that asks what this call cost; None where that is known, or nobody can be asked."""
        decoder = self._decoder
        if decoder is None or not decoder.id or (decoder.usage is not None and decoder.counted):
            return None
        return self._model.spend_request(decoder.id)

    def _estimate(self, decoder: ReplyDecoder | None) -> Usage:
        reported = decoder.usage if decoder else None
        usage = reported or Usage(input_tokens=self._input_tokens())
        output = math.ceil((decoder.characters if decoder else 0) / CHARACTERS_PER_TOKEN)
        return msgspec.structs.replace(usage, output_tokens=max(usage.output_tokens, output), estimated=True)

    def _input_tokens(self) -> int:
        return estimated_tokens(len(self._body), self._request.transcript.media)

    def _priced(self, usage: Usage, billed_output_tokens: int) -> Usage:
        if usage.cost_usd is not None:
            return usage
        billed = msgspec.structs.replace(usage, output_tokens=billed_output_tokens)
        return msgspec.structs.replace(usage, cost_usd=self._model.cost(billed))

    @property
    def reply(self) -> Reply:
        """The whole reply; after the iteration has ended, not before."""
        if self._reply is None:
            raise RuntimeError("the reply is there when the iteration over the stream has ended")
        return self._reply

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        while not self._ready:
            decoder = self._decoder
            if decoder is None:
                self._decoder = await self._open()
            elif self._reply is not None:
                raise StopAsyncIteration
            elif self._complete:
                self._reply = self._finished(decoder)
            elif decoder.done or decoder.failed:
                await self._drain(decoder)
            else:
                await self._read(decoder)
        return self._ready.popleft()

    async def _open(self) -> ReplyDecoder:
        self._body = self._model.dialect.encode(self._request)
        if self._model.rate is not None:
            await self._take_turn(self._model.rate)
        self._watchdog.connecting()
        try:
            self._answer = await self._model.exchange.send(self._model.http_request(self._body), self._connected)
        finally:
            self._watchdog.resting()
        if not 200 <= self._answer.status < 300:
            self._refused = True
            raise self._model.refusal(self._answer, await self._error_body())
        return self._model.dialect.decoder(stream=self._is_event_stream())

    async def _take_turn(self, rate: RateLimit) -> None:
        """Wait for the rate limit; no limit of the call counts meanwhile."""
        tokens = self._input_tokens() + (self._request.output_limit or 0)
        await rate.wait(tokens)
        if (cause := pending_cause()) is not None:
            raise copy.copy(cause)  # a grace began meanwhile, in which nothing new is asked
        self._booked_tokens = tokens

    def correct_rate(self) -> None:
        """Tell the rate limit what the call really took; once, when it is over."""
        if self._model.rate is not None and self._booked_tokens is not None:
            spent, booked = self.spent, self._booked_tokens
            self._booked_tokens = None
            self._model.rate.correct(spent.input_tokens + spent.output_tokens - booked)

    def _connected(self) -> None:
        self._sent = True
        self._watchdog.waiting()

    def _is_event_stream(self) -> bool:
        kind = self._answer.headers.get("content-type", "") if self._answer else ""
        if "event-stream" in kind:
            return True
        return self._model.streamed and "json" not in kind and "html" not in kind

    async def _receive(self) -> bytes:
        """The next bytes; the caller says `resting` when it has seen what they are."""
        self._watchdog.reading()
        return await self._receive_unwatched()

    async def _receive_unwatched(self) -> bytes:
        if self._answer is None:
            return b""
        data = await self._answer.read()
        self._body_over = self._complete = not data
        return data

    async def _read(self, decoder: ReplyDecoder) -> None:
        contents = decoder.contents
        try:
            data = await self._receive()
            self._ready.extend(decoder.feed(data) if data else decoder.close())
            if decoder.characters > MAX_REPLY_CHARACTERS:
                raise BadReply(f"it is longer than {MAX_REPLY_CHARACTERS:,} characters")
            if decoder.contents > MAX_REPLY_PIECES:
                raise BadReply(f"it has more than {MAX_REPLY_PIECES:,} pieces")
        except TransportFailed as error:
            if not decoder.ended:
                if not self._model.streamed:
                    raise
                raise IncompleteStream(f"the connection broke after {decoder.characters:,} characters") from error
            self._complete = True  # the reply is whole; what broke off was only its last words, such as the usage
        finally:
            self._watchdog.resting(content=decoder.contents != contents)

    async def _drain(self, decoder: ReplyDecoder) -> None:
        """Read to the body's end, so that the connection can be used again; not for long, so no limit of the call counts."""
        no_wait = getattr(self._answer, "at_end", False)  # an exchange may tell that the end is there already
        with nullcontext() if no_wait else Scope(DRAIN_SECONDS, quiet=True):
            try:
                left = DRAIN_BYTES
                while left > 0 and (data := await self._receive_unwatched()):
                    left -= len(data)
                    decoder.feed(data)  # usage may follow an error; after the reply's end nothing counts
            except TransportFailed:
                pass  # the reply is whole
        self._complete = True

    def _finished(self, decoder: ReplyDecoder) -> Reply:
        try:
            reply = decoder.finish(self._request.transcript.call_ids)
        except AgentError as error:
            failed = self._model.blotted(error)
        else:
            return msgspec.structs.replace(reply, usage=self.spent)
        raise failed  # outside, so that nothing of the one with the key is left

    async def _error_body(self) -> bytes:
        pieces, size = [], 0
        try:
            while size < MAX_ERROR_BYTES and (data := await self._receive()):
                pieces.append(data)
                size += len(data)
        except TransportFailed:
            pass  # the status says enough
        finally:
            self._watchdog.resting()
        return b"".join(pieces)[:MAX_ERROR_BYTES]

    @property
    def is_open(self) -> bool:
        """Whether there is a connection to close; at the body's end it was given back."""
        return self._answer is not None and not self._body_over

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._answer is not None:
            await self._answer.aclose()


def _shown_target(location: str) -> str:
    try:
        return shown_address(location) or "nowhere"
    except ValueError:
        return "what is no address"


def _endpoint(base_url: str, path: str) -> str:
    address, mark, query = base_url.partition("?")
    if "?" in path and mark:
        mark = "&"
    return f"{address.rstrip('/')}{path}{mark}{query}"


def _headers(dialect: Dialect, key: str | None, more: Mapping[str, str] | None) -> dict[str, str]:
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream" if dialect.streamed else "application/json",
        "user-agent": "heaveto",
        **dialect.headers(key),
    }
    if dialect.streamed:
        headers["accept-encoding"] = "identity"  # what compresses a stream holds it back
    for name, value in (more or {}).items():
        headers[check_header("a header's name", name, "use plain ASCII").lower()] = check_header(
            f"the header {name}", value, "use plain ASCII without line breaks"
        )
    return headers
