"""A body of a GET or DELETE arrives: what is made of a document is what goes over the network."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from toolwire import connect_sync

EMAILS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.requirement("CV-15")
@pytest.mark.parametrize("method", ["delete", "get"])
@pytest.mark.parametrize(
    ("schema", "arguments", "expected"),
    [
        (
            {"oneOf": [{"type": "object", "properties": {"emails": EMAILS}, "required": ["emails"]}, EMAILS]},
            {"body": ["a@b"]},
            ["a@b"],
        ),
        ({"type": "object", "properties": {"emails": EMAILS}}, {"emails": ["a@b"]}, {"emails": ["a@b"]}),
        ({"type": "object", "properties": {"emails": EMAILS}}, {}, None),
    ],
)
def test_body_of_a_method_without_body_semantics_arrives(
    listen: Any,
    encode_response: Callable[..., bytes],
    method: str,
    schema: Any,
    arguments: dict[str, Any],
    expected: Any,
) -> None:
    operation = {
        "operationId": "delete_emails",
        "requestBody": {"content": {"application/json": {"schema": schema}}},
        "x-llm": {},
    }
    info = {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "x-llm": {"version": "0.1"}}
    document = json.dumps({**info, "paths": {"/user/emails": {method: operation}}}).encode()

    def answer(seen: Any) -> list[bytes]:
        path = seen.line.split()[1]
        if path not in ("/openapi.json", "/user/emails"):
            return [encode_response(b"", status="404 Not Found")]
        return [encode_response(document if path == "/openapi.json" else b"1", "content-type: application/json")]

    site = listen(answer)
    with connect_sync(site.origin, approve=lambda _: True) as remote:
        assert remote.call("delete_emails", arguments).ok
    seen = site.requests[-1]
    assert seen.line == f"{method.upper()} /user/emails HTTP/1.1"
    assert (json.loads(seen.body) if seen.body else None) == expected
