"""Generated conversations come back to the servers that had them; `make conversations` tries more."""

from __future__ import annotations

from typing import Any

import pytest
from conversations import failures
from fake_servers import SERVERS
from points import DIALECTS

from heaveto.models.chat.decode import ChatDecoder


@pytest.mark.parametrize("dialect", SERVERS)
def test_what_was_said_comes_back(dialect: str) -> None:
    assert failures(dialect, range(60)) == []


class Repeated(ChatDecoder):
    """Two calls with one id are one, as their pieces are."""

    def _take_part(self, part: Any) -> None:
        self._stream = True
        super()._take_part(part)


@pytest.mark.parametrize(
    ("dialect", "find", "instead"),
    [
        ("chat", b'"signature":', b'"sig":'),
        ("anthropic", b'"is_error":true', b'"is_error":false'),
        ("responses", b'"encrypted_content":"', b'"encrypted_content":"x'),
        ("gemini", b'"inlineData":', b'"fileData":'),
        ("chat", b"\xef\xbf\xbd", b"?"),
    ],
)
def test_another_request_is_seen(monkeypatch: pytest.MonkeyPatch, dialect: str, find: bytes, instead: bytes) -> None:
    class Wrong(DIALECTS[dialect]):  # type: ignore[misc]
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            right = self.encode
            self.encode = lambda request: right(request).replace(find, instead)

    monkeypatch.setitem(DIALECTS, dialect, Wrong)
    assert failures(dialect, range(60))


def test_another_reply_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(DIALECTS["chat"]):  # type: ignore[misc]
        def decoder(self, *, stream: bool) -> ChatDecoder:
            return Repeated(stream=stream, provider="chat")

    monkeypatch.setitem(DIALECTS, "chat", Wrong)
    assert failures("chat", range(60))
