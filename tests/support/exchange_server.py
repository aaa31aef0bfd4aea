"""A token endpoint that exchanges the tokens of callers for those of an upstream."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs


class ExchangeServer(ThreadingHTTPServer):
    """A token endpoint that exchanges tokens, and keeps the forms that it got."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ExchangeHandler)
        self.forms: list[dict[str, str]] = []
        self.tokens: dict[str, str] = {}


class ExchangeHandler(BaseHTTPRequestHandler):
    server: ExchangeServer

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: values[0] for name, values in parse_qs(text).items()}
        self.server.forms.append(form)
        token = self.server.tokens.get(form["subject_token"])
        body: Any = {"error": "invalid_grant"}
        if token is not None:
            body = {"access_token": token, "token_type": "Bearer", "expires_in": 3_600}
        self.send_response(400 if token is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: Any) -> None:
        """Write no line for a request."""
