"""The offline model's API: OpenAI's chat completions over HTTP/1.1 on loopback, from the standard library alone.

It runs in a child process that ends with its parent: when the pipe on its standard input closes, or when it has another
parent than it began with. Linux's parent-death signal is no help here: it is sent when the *thread* that started the child
ends, and some event loops start processes from short-lived threads.
"""

from __future__ import annotations

import hmac
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .engine import MODEL, answer
from .wire import RequestRefused, check_request, completion, event_lines, listing

__all__ = ["PACE_VARIABLE", "TOKEN_VARIABLE", "ApiServer", "main"]

TOKEN_VARIABLE = "HEAVETO_OFFLINE_TOKEN"  # noqa: S105 - the variable's name; never on the command line, which `ps` shows
PACE_VARIABLE = "HEAVETO_OFFLINE_CHUNK_SECONDS"
PARENT_CHECK_SECONDS = 1.0  # how soon an orphan notices when somebody else holds its pipe open
LARGEST_BODY = 256 * 1024 * 1024  # bytes; more than any history, less than the memory of a small machine

Answer = Callable[[Mapping[str, Any]], dict[str, Any]]


class ApiServer(ThreadingHTTPServer):
    """Serves one model on a free port of 127.0.0.1.

    Args:
        token: What requests must send as their bearer token.
        chunk_seconds: The pause between two pieces of a streamed reply, so that people see it come.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, token: str, chunk_seconds: float = 0.0, reply: Answer = answer) -> None:
        self.token, self.chunk_seconds, self.reply = token, chunk_seconds, reply
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left in the middle of a reply is ordinary; anything else is a bug and is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ApiServer

    def do_GET(self) -> None:
        self._serve(self._models)

    def do_POST(self) -> None:
        self._serve(self._complete)

    def _serve(self, respond: Callable[[bytes], None]) -> None:
        body = self._body()
        try:
            self._authorize()
            respond(body)
        except RequestRefused as refusal:
            self._send_json(refusal.status, refusal.body())

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length") or "0"
        if "Transfer-Encoding" in self.headers or not length.isdigit() or int(length) > LARGEST_BODY:
            self.close_connection = True  # what follows cannot be told from a next request
            return b""
        return self.rfile.read(int(length))

    def _authorize(self) -> None:
        sent = (self.headers.get("Authorization") or "").encode(errors="replace")
        if not hmac.compare_digest(sent, f"Bearer {self.server.token}".encode()):
            raise RequestRefused(HTTPStatus.UNAUTHORIZED, "incorrect API key provided", "invalid_api_key")

    def _models(self, _body: bytes) -> None:
        if self.path != "/v1/models":
            raise RequestRefused(HTTPStatus.NOT_FOUND, f"unknown address: GET {self.path}", "unknown_url")
        self._send_json(HTTPStatus.OK, listing())

    def _complete(self, body: bytes) -> None:
        if self.path != "/v1/chat/completions":
            raise RequestRefused(HTTPStatus.NOT_FOUND, f"unknown address: POST {self.path}", "unknown_url")
        request = check_request(body, MODEL)
        message = self._reply(request)
        if request.get("stream"):
            self._stream(request, message)
        else:
            self._send_json(HTTPStatus.OK, completion(request, message))

    def _reply(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.server.reply(request)
        except Exception as error:
            problem = f"the repair engine has a bug: {type(error).__name__}: {error}"
            raise RequestRefused(HTTPStatus.INTERNAL_SERVER_ERROR, problem, "server_error") from error

    def _send_json(self, status: int, data: Mapping[str, Any]) -> None:
        payload = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _stream(self, request: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in event_lines(request, message):
            payload = line.encode()
            self.wfile.write(f"{len(payload):x}\r\n".encode() + payload + b"\r\n")
            self.wfile.flush()
            if self.server.chunk_seconds:
                time.sleep(self.server.chunk_seconds)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Requests are not logged: the client is our own."""


def main() -> None:
    """Serve until the parent is gone. The first line on standard output is the port."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to decide on
    token = os.environ.pop(TOKEN_VARIABLE, "")
    if not token:
        sys.exit(f"{TOKEN_VARIABLE} must hold the token that requests send")
    server = ApiServer(token, float(os.environ.get(PACE_VARIABLE, "0")))
    threading.Thread(target=_end_with_pipe, daemon=True).start()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    print(server.server_port, flush=True)  # noqa: T201 - it is how the parent learns the port
    server.serve_forever()


def _end_with_pipe() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(0)
