"""What a server sees of hostile values in a path: the route that was meant, or nothing at all."""

from __future__ import annotations

import posixpath
import re
from typing import Any
from urllib.parse import unquote

import pytest

from toolwire.client.transport.network import SyncNetwork
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem
from toolwire.protocols.openapi.request.build_request import build_request
from toolwire.protocols.openapi.request.plan import Parameter, Place, Plan

PAYLOADS = [
    "", ".", "..", "...", "%2e", "%2e%2e", "%252e%252e", "%25252e%25252e", ".%2e", "%2e.", "..;", "..;a=1", ";..",
    "..\x00", "..%00", "..%20", " ..", ".. ", "..\t", "\\..", "..\\", "..\\x", "%5c..%5c", "%255c..", "../", "/..",
    "../x", "x/..", "x/../y", "..%2fx", "%2e%2e%2fx", "%252e%252e%252fx", "..%c0%af", "..／x", "a?b=1", "a#b", "a&b",
    "a\r\nX-Y: 1", "%0d%0aX: 1", "//evil.test/", "http://evil.test/", "@evil.test", "x%" + "25" * 12 + "2e",
    "💥", "a" * 3_000,
]  # fmt: skip
STYLES = [(style, explode) for style in ("simple", "label", "matrix") for explode in (False, True)]


@pytest.mark.requirement("D-10", "CV-05")
@pytest.mark.parametrize("shape", ["text", "array", "object"])
def test_path_value_reaches_its_route_or_is_not_sent(listen: Any, shape: str) -> None:
    listener, network = listen(), SyncNetwork()
    refused = 0
    for style, explode in STYLES:
        one = Parameter("id", Place.PATH, style, explode)
        plan = Plan(method="GET", base=f"{listener.origin}/v1", path="/recipes/{id}/notes", parameters=(("id", one),))
        for payload in PAYLOADS:
            value = {"text": payload, "array": [payload, payload], "object": {payload or "k": payload}}[shape]
            request = build_request(plan, {"id": value})
            if isinstance(request, Problem):
                assert (request.kind, list(request.parameter_errors)) == (Kind.INVALID_ARGUMENTS, ["id"])
                refused += 1
            else:
                answer = network.send(request)
                assert isinstance(answer, Response | Problem)
    network.close()
    assert refused > 20
    assert len(listener.requests) == len(STYLES) * len(PAYLOADS) - refused
    for seen in listener.requests:
        method, path, version = seen.line.split(" ")
        assert (method, version, path.count("/")) == ("GET", "HTTP/1.1", 4)
        assert re.fullmatch(r"/v1/recipes/[!-~]+/notes", path)
        assert "x-y" not in seen.headers
        for _ in range(4):
            assert ".." not in re.split(r"[/\\]", path), "a dot segment, for a server that decodes"
            path = unquote(path)
        assert posixpath.normpath(path).startswith("/v1/recipes/")


@pytest.mark.requirement("D-11")
def test_value_that_could_inject_a_header_or_cookie_is_not_sent(listen: Any) -> None:
    listener = listen()
    for place, style in ((Place.HEADER, "simple"), (Place.COOKIE, "form"), (Place.COOKIE, "cookie")):
        plan = Plan(method="GET", base=listener.origin, path="/", parameters=(("v", Parameter("v", place, style)),))
        for value in ("a\r\nx: 1", "a\nx: 1", "a\0", "\x7f", "é", "a\x1b[0m"):
            request = build_request(plan, {"v": value})
            if place is Place.COOKIE and style == "form":  # percent-encoded, and so harmless
                assert isinstance(request, Request)
                assert request.headers[-1][1].isalnum() or b"%" in request.headers[-1][1]
            else:
                assert isinstance(request, Problem)
    assert listener.requests == []
