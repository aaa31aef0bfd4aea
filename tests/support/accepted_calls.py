"""A site that answers 202 and goes on with a call."""

from __future__ import annotations

import json
from typing import Any

OPERATION = {
    "operationId": "build_report",
    "x-llm": {"approval": "per-call", "blanketApprovalAllowed": True},
    "responses": {"202": {"description": "It is being built."}},
}

DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Reports", "version": "1.0.0"},
    "x-llm": {"version": "0.1", "name": "Reports"},
    "paths": {"/reports": {"post": OPERATION}},
}

JSON = ("content-type", "application/json")

RUNNING = (200, {"retry-after": "0"}, {"status": "running"})

ENDED = (200, {}, {"status": "succeeded", "result": {"pages": 3}})

Answer = tuple[int, dict[str, str], Any]


class Site:
    """An API whose one operation answers ``accepted``; its statuses are ``answers`` in order, the last for ever."""

    def __init__(self, *answers: Answer, accepted: Answer | None = None) -> None:
        self.accepted = accepted or (202, {"location": "/jobs/7", "retry-after": "0"}, {"status": "queued"})
        self.answers = list(answers)
        self.heard: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body", False):
            pass
        path, query = scope["path"], scope["query_string"].decode()
        status, headers, body = (404, {}, {"message": "There is nothing here."})
        if path == "/openapi.json":
            status, body = 200, DOCUMENT
        elif path.startswith(("/reports", "/jobs", "/results", "/other")):
            self.heard.append((scope["method"], path + (f"?{query}" if query else "")))
            self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
            status, headers, body = self.accepted if path == "/reports" else self._take()
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = [(name.encode(), value.encode()) for name, value in {**dict([JSON]), **headers}.items()]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": text})

    def _take(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def polls(self) -> list[str]:
        return [path for method, path in self.heard if method == "GET"]

    @property
    def posts(self) -> int:
        return sum(method == "POST" for method, _ in self.heard)
