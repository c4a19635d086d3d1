"""An MCP server in few lines of the standard library, so that it starts fast: `python raw_server.py LOG`.

It writes each message that it gets to LOG, behind a line with its pid. With OLD in its environment it ends at a request that
it does not know before the handshake, as servers on the first releases of the SDK do.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

HINTS = {"look": {"readOnlyHint": True}, "set": {"idempotentHint": True}}
TOOLS = (
    "ask",
    "look",
    "set",
    "echo",
    "pid",
    "wait",
    "crash",
    "fail",
    "refuse",
    "stray",
    "flood",
    "picture",
    "progress",
    "grow",
    "odd",
)
grown = list[str]()
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}
ANYTHING = {"type": "object", "properties": {}}


def describe(name: str) -> dict[str, Any]:
    schema = TEXT if name == "echo" else ANYTHING
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema, "annotations": HINTS.get(name, {})}


def call(request: dict[str, Any]) -> dict[str, Any] | None:
    params = request["params"]
    match params["name"]:
        case "echo":
            return text(params["arguments"]["text"])
        case "pid":
            return text(str(os.getpid()))
        case "look":
            return text("seen")
        case "set":
            return text("set")
        case "wait":
            return None
        case "crash":
            print("about to crash", file=sys.stderr, flush=True)
            os._exit(3)
        case "fail":
            return {"content": [{"type": "text", "text": "no such note"}], "isError": True}
        case "stray":
            print("hello, I am no protocol", flush=True)
            return text("printed")
        case "flood":
            return text("x" * 3_000_000)
        case "picture":
            return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}], "structuredContent": {"a": 1}}
        case "ask":
            say({"id": "q", "method": "elicitation/create", "params": {"message": "Really?", "requestedSchema": ANYTHING}})
            answered = json.loads(sys.stdin.readline())
            return text(json.dumps(answered.get("result") or answered["error"]["message"]))
        case "grow":
            grown.append("new_one")
            say({"method": "notifications/tools/list_changed"})
            return text("grown")
        case "odd":
            line = params["arguments"]["line"].replace("ID", json.dumps(request["id"]))
            os.write(1, line.encode("latin-1") + b"\n")
            return None
        case "progress":
            token = params["_meta"]["progressToken"]
            for done in (1, 2):
                say({"method": "notifications/progress", "params": {"progressToken": token, "progress": done, "total": 2}})
            return text("done")
    raise ValueError(params["name"])


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(request: dict[str, Any]) -> None:
    match request["method"]:
        case "initialize":
            info = {"name": "raw", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info}
        case "tools/list":
            result = {"tools": [describe(name) for name in TOOLS[len(grown) :]] + [describe(name) for name in grown]}
        case "tools/call":
            try:
                result = call(request)
            except ValueError:
                say({"id": request["id"], "error": {"code": -32602, "message": "that will not do"}})
                return
        case _ if "OLD" in os.environ:
            print("that is no request", file=sys.stderr, flush=True)
            os._exit(1)
        case _:
            say({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
            return
    if result is not None:
        say({"id": request["id"], "result": result})


def main() -> None:
    delay = float(sys.argv[2]) if len(sys.argv) > 2 else 0
    with open(sys.argv[1], "a") as log:
        print(f"pid {os.getpid()}", file=log, flush=True)
        time.sleep(delay)
        for line in sys.stdin:
            print(line, end="", file=log, flush=True)
            message = json.loads(line)
            if "id" in message and "method" in message:
                answer(message)


main()
