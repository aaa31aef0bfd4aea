"""Servers that answer as the SDKs for other languages were seen to, byte for byte where bytes were seen."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

KEY = "K1"


class Said(NamedTuple):
    status: int
    body: bytes
    media: str = "application/json"


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def text(body: str, status: int = 200, media: str = "application/json") -> Said:
    return Said(status, body.encode(), media)


def compact(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


NO_PARSER = '{"code":404,"message":"Json Parser NOT implement"}'
STACK = "   at Notes.Call(String name) in /src/Notes.cs:line 12\n   at OpenToolSDK.Controller.Call()"


# TypeScript


def typescript(asked: Asked) -> Said:
    key = asked.headers.get("authorization")
    if key is None:
        return text('{"error":"Authorization header missing"}', 401)
    if key not in (f"Bearer {KEY}", KEY):
        return text('{"error":"Invalid API key"}', 401)
    match asked.method, asked.path:
        case "GET", "/opentool/version":
            return text('{"version":"0.0.1"}')
        case "GET", "/opentool/load":
            return text(NO_PARSER)
        case "POST", "/opentool/call":
            return _typescript_call(asked)
        case _:
            return text("<html>Cannot GET</html>", 404, "text/html")


def _typescript_call(asked: Asked) -> Said:
    body = json.loads(asked.body)
    if not {"jsonrpc", "method", "id"} <= set(body) or asked.headers.get("content-type") != "application/json":
        invalid = '{"jsonrpc":"2.0.0","result":{},"id":"","error":{"code":400,"message":"Invalid request body"}}'
        return text(invalid, 400)
    answer: dict[str, Any] = {"jsonrpc": "2.0.0", "result": {}, "id": body["id"]}
    match body["method"]:
        case "create":
            answer["result"] = {"id": 1}
        case "echo":
            answer["result"] = body["params"]
        case "number":
            answer["result"] = 7
        case "break":
            inner = compact({"code": 500, "message": "Error: Fatal error occurred in run()"})
            answer["error"] = {"code": 500, "message": inner}
        case "fail":
            answer["error"] = {"code": 500, "message": "Error: No text found with id: 99"}
        case other:
            answer["result"] = {"code": 405, "message": f"Function Not Supported: {other}"}
    return text(compact(answer))


# Java

JAVA_DOCUMENT = (
    '{"opentool":"1.0.0","info":{"title":"Weather Example","description":null,"version":"1.0.0"},"functions":'
    '[{"name":"f","description":"d","parameters":[{"name":"q","description":null,"schema":{"type":"string",'
    '"description":null,"properties":null,"items":null,"enum":null,"required":null},"required":true}],"return":'
    '{"name":"r","description":null,"schema":{"type":"string","description":null,"properties":null,"items":null,'
    '"enum":null,"required":null}}}],"schemas":null}'
)


def java(asked: Asked, document: str = "") -> Said:
    if not asked.path.startswith("/opentool"):
        return text('{"status":404,"error":"Not Found"}', 404)
    if asked.headers.get("authorization") != f"Bearer {KEY}":
        return text("", 401)
    match asked.method, asked.path:
        case "GET", "/opentool/version":
            return text('{"version":"1.0.0"}')
        case "GET", "/opentool/load":
            return text(document)
        case "POST", "/opentool/call":
            return _java_call(json.loads(asked.body))
        case _:
            return text('{"status":404,"error":"Not Found"}', 404)


def _java_call(body: dict[str, Any]) -> Said:
    answer: dict[str, Any] = {"jsonrpc": "2.0", "result": {}, "error": None, "id": body.get("id")}
    match body["method"]:
        case "create":
            answer["result"] = {"id": 1}
        case "echo":
            answer["result"] = body.get("params")
        case "fail" | "break":
            answer["result"] = None
            answer["error"] = {"code": 500, "message": "Internal error: boom"}
    return text(compact(answer))


def java_described(asked: Asked) -> Said:
    return java(asked, JAVA_DOCUMENT)


# Dart


def dart(asked: Asked) -> Said:
    if asked.headers.get("authorization") != f"Bearer {KEY}":
        return text("Unauthorized", 401, "text/plain")
    match asked.method, asked.path:
        case "GET", "/opentool/version":
            return text('{"version":"N/A"}')
        case "GET", "/opentool/load":
            return text(NO_PARSER)
        case "POST", "/opentool/call":
            return _dart_call(json.loads(asked.body))
        case _:
            return text("Route not found", 404, "text/plain")


def _dart_call(body: dict[str, Any]) -> Said:
    if not isinstance(body.get("id"), str):
        return text('{"jsonrpc":"2.0","result":{},"error":{"code":-32700,"message":"Parse error"},"id":null}', 400)
    answer: dict[str, Any] = {"jsonrpc": "2.0", "result": {}, "id": body["id"]}
    match body["method"]:
        case "create":
            answer["result"] = {"id": 1}
        case "echo":
            answer["result"] = body["params"]
        case "fail" | "break":
            answer["error"] = {"code": 500, "message": "Exception: boom"}
        case other:
            answer["result"] = {"code": 405, "message": f"Function Not Supported: {other}"}
    return text(compact(answer))


# .NET


def dotnet8(asked: Asked) -> Said:
    return _dotnet(asked, '{"versionNumber":"1.0.0"}', _dotnet8_failed, {"error": None})


def netfx(asked: Asked) -> Said:
    return _dotnet(asked, '{"version":"1.0.0"}', _netfx_failed, {})


def _dotnet(asked: Asked, version: str, failed: Callable[[], Said], more: dict[str, Any]) -> Said:
    if asked.headers.get("authorization") != f"Bearer {KEY}":
        return text("Unauthorized", 401, "text/plain")
    match asked.method, asked.path:
        case "GET", "/opentool/version":
            return text(version)
        case "GET", "/opentool/load":
            return text(NO_PARSER)
        case "POST", "/opentool/call":
            body = json.loads(asked.body)
        case _:
            return text("", 404)
    if not isinstance(body["id"], str) or body["method"] in ("fail", "break"):
        return failed()
    answer = {"jsonrpc": "2.0", "result": {}, "id": body["id"], **more}
    match body["method"]:
        case "create":
            answer["result"] = {"id": 1}
        case "echo":
            answer["result"] = body["params"]
        case other:
            answer["result"] = {"code": 405, "message": f"Function Not Supported: {other}"}
    return text(compact(answer))


def _dotnet8_failed() -> Said:
    error = {"code": 500, "message": f"System.Exception: boom\n{STACK}"}
    return text(compact({"jsonrpc": "2.0", "result": {}, "error": error, "id": ""}), 500)


def _netfx_failed() -> Said:
    return text(compact({"jsonrpc": "2.0", "result": {}, "error": {"code": 500, "message": "boom"}, "id": ""}))


# Anything else


def build_fixed_answer(said: Said) -> Callable[[Asked], Said]:
    """Return a server that says the same to whatever it is asked."""
    return lambda _: said


@dataclass
class Running:
    """A server on loopback: where it is, and what it was asked."""

    url: str
    asked: list[Asked]


@contextmanager
def run_server(answer: Callable[[Asked], Said]) -> Iterator[Running]:
    """Give a server that answers by ``answer`` until the block ends."""
    received: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            asked = Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            received.append(asked)
            reply = answer(asked)
            self.send_response(reply.status)
            self.send_header("content-type", reply.media)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = _answer  # noqa: N815 - the names of http.server

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Running(f"http://127.0.0.1:{server.server_address[1]}", received)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
