"""A receiver of webhooks."""

from __future__ import annotations

import http.server
import json
import threading
from base64 import b64encode
from queue import Queue
from typing import Any

from standardwebhooks import Webhook as Verifier

KEY = b64encode(b"k" * 32).decode()


class Receiver:
    """A site that takes webhooks: it answers with the next of ``answers``, then with 200."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.received: Queue[tuple[str, dict[str, str], bytes]] = Queue()
        self.gate = threading.Event()
        self.gate.set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.gate.wait(20)
                status, fields = receiver.answers.pop(0) if receiver.answers else (200, {})
                receiver.received.put((self.path, {name.lower(): text for name, text in self.headers.items()}, body))
                self.send_response(status)
                for name, text in fields.items():
                    self.send_header(name, text)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def take(self) -> tuple[str, dict[str, str], dict[str, Any]]:
        """Return path, header fields and data of the next message, after its signature was verified."""
        path, fields, body = self.received.get(timeout=20)
        verified = Verifier(KEY).verify(body, fields)
        assert verified == json.loads(body)
        return path, fields, verified
