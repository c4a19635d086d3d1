"""Both exchanges do what every exchange must; and what only certificates, proxies and event loops can show."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from heaveto.errors import ConfigError, TransportFailed
from heaveto.models import Exchange, HTTPRequest, HttpxExchange, compatible
from heaveto.retry import classify
from heaveto.testing import no_leaks
from heaveto.testing.exchange_conformance import EXCHANGE_CHECKS, ExchangeCheck
from heaveto.testing.exchange_server import Peer, serving

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.fixture(params=["asyncio-httpx2", "trio-httpx2", "asyncio-aiohttp"])
def case(request: pytest.FixtureRequest) -> str:
    """A back end and an exchange that runs on it."""
    return str(request.param)


@pytest.fixture
def anyio_backend(case: str) -> str:
    return case.partition("-")[0]


@pytest.fixture
def factory(case: str) -> Callable[[], Exchange]:
    """Makes one of the exchanges."""
    if case.endswith("httpx2"):
        return HttpxExchange
    pytest.importorskip("aiohttp", reason="no aiohttp")
    from heaveto.models import AiohttpExchange

    return AiohttpExchange


@pytest.mark.parametrize("check", EXCHANGE_CHECKS, ids=lambda check: check.__name__)
async def test_conformance(check: ExchangeCheck, factory: Callable[[], Exchange]) -> None:
    async with no_leaks():
        await check(factory)


async def answering(peer: Peer) -> None:
    while await peer.request():
        await peer.send(OK)


async def ask(exchange: Exchange, url: str) -> int:
    answer = await exchange.send(HTTPRequest("POST", url, {}, b"{}"), lambda: None)
    while await answer.read():
        pass
    return answer.status


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY", "http_proxy"])
async def test_loopback_bypasses_proxies(
    factory: Callable[[], Exchange], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """The proxy is a dead port; a local model is asked all the same."""
    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    async with serving(answering) as server:
        exchange = factory()
        assert await ask(exchange, server.url) == 200
        assert await ask(exchange, server.url.replace("127.0.0.1", "localhost")) == 200
        with pytest.raises(TransportFailed):
            await ask(exchange, "http://elsewhere.invalid/v1")
        await exchange.aclose()


async def test_a_proxy_is_asked_for_what_is_elsewhere(
    factory: Callable[[], Exchange], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(answering) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", "//user:pa%20ss@"))
        exchange = factory()
        assert await ask(exchange, "http://elsewhere.invalid/v1") == 200
        monkeypatch.setenv("NO_PROXY", "elsewhere.invalid")
        again = factory()
        with pytest.raises(TransportFailed, match="the host name is not known"):
            await ask(again, "http://elsewhere.invalid/v1")
        await exchange.aclose()
        await again.aclose()
    head = proxy.requests[0].lower()
    assert head.startswith(b"post http://elsewhere.invalid/v1 http/1.1\r\n")
    assert b"proxy-authorization: basic dxnlcjpwysbzcw==\r\n" in head  # "user:pa ss", in lower case


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody has signed, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(file.with_suffix(".key")), "-out", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    return file


async def test_a_certificate_that_is_not_trusted(factory: Callable[[], Exchange], self_signed: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(self_signed, self_signed.with_suffix(".key"))
    async with no_leaks(), serving(answering, tls) as server:
        exchange = factory()
        with pytest.raises(TransportFailed) as caught:
            await ask(exchange, server.url)
        await exchange.aclose()
    assert caught.value.problem == "no connection: the server's certificate is not trusted"
    assert not classify(caught.value, scope_stopped=False).retry, "it would not be trusted the next time either"
    assert server.requests == []


async def test_a_server_that_does_not_speak_tls(factory: Callable[[], Exchange]) -> None:
    async def plain(peer: Peer) -> None:
        await peer.send(OK)
        await peer.wait_for_hang_up()

    async with no_leaks(), serving(plain) as server:
        exchange = factory()
        with pytest.raises(TransportFailed) as caught:
            await ask(exchange, server.url.replace("http:", "https:"))
        await exchange.aclose()
    assert caught.value.problem == "no connection: TLS failed"


@pytest.mark.parametrize("by", ["argument", "environment"])
async def test_the_library_is_chosen_by_name(case: str, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    name = case.partition("-")[2]
    monkeypatch.setenv("HEAVETO_EXCHANGE", name if by == "environment" else "nonsense")
    model = compatible("m", base_url="http://localhost:1", **({"exchange": name} if by == "argument" else {}))
    assert name[:5] in type(model.exchange).__name__.lower()
    await model.aclose()


def test_an_unknown_library_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        compatible("m", base_url="http://localhost:1", exchange="curl")
    assert str(caught.value) == 'no exchange named "curl"; it is "httpx2" or "aiohttp"'


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "heaveto.models.aiohttp_exchange", raising=False)
    with pytest.raises(ConfigError) as caught:
        compatible("m", base_url="http://localhost:1", exchange="aiohttp")
    assert str(caught.value) == 'aiohttp is not installed; pip install "heaveto[fast]"'


def test_aiohttp_on_trio_is_refused() -> None:
    pytest.importorskip("aiohttp", reason="no aiohttp")
    from heaveto.models import AiohttpExchange

    exchange = AiohttpExchange()
    with pytest.raises(ConfigError) as caught:
        anyio.run(ask, exchange, "http://127.0.0.1:1", backend="trio")
    assert str(caught.value) == 'aiohttp runs on asyncio only; leave exchange="aiohttp" out, or run under asyncio'


def test_an_exchange_goes_from_one_loop_to_the_next(anyio_backend: str, factory: Callable[[], Exchange]) -> None:
    exchange = factory()

    async def once() -> None:
        async with serving(answering) as server:
            assert await ask(exchange, server.url) == 200
            await exchange.aclose()

    for _ in range(2):
        anyio.run(once, backend=anyio_backend)
