"""A call that only reads is a GET over OpenAPI, whose URL ends; the refusal says which argument and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from toolwire import Kind, Problem, Toolkit, Value, asgi, connect_sync
from toolwire.client.transport.url_policy import Target, admit
from toolwire.testing.loopback import background


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    kit = Toolkit("Texts")

    @kit.tool(approval="auto", safe=True)
    def count(text: str, other: str = "") -> int:
        """Count the characters."""
        return len(text) + len(other)

    with background(asgi(kit)) as url:
        yield url


@pytest.mark.requirement("GR-05")
@pytest.mark.parametrize("text", ["x" * 40_000, "a b" * 11_000, "ä" * 9_000])
def test_a_text_that_is_too_long_for_a_url_is_refused_by_its_argument(server: str, text: str) -> None:
    asked: list[Any] = []
    with connect_sync(server, protocol="openapi", approve=asked.append, agree=lambda _: True) as remote:
        problem = remote.call("count", {"text": text, "other": "short"})
    assert isinstance(problem, Problem)
    assert (problem.kind, list(problem.parameter_errors), asked) == (Kind.INVALID_ARGUMENTS, ["text"], [])
    assert "text: is too long for a URL, which would have" in problem.message
    assert "can have 32,768" in problem.message
    assert "--protocol mcp, otc or opentool" in problem.message


@pytest.mark.requirement("GR-05")
@pytest.mark.parametrize("protocol", ["mcp", "otc", "opentool"])
def test_the_same_call_goes_over_another_protocol_without_another_question(server: str, protocol: str) -> None:
    asked: list[Any] = []
    with connect_sync(server, protocol=protocol, approve=asked.append, agree=lambda _: True) as remote:
        assert remote.call("count", {"text": "x" * 40_000}) == Value(40_000)
    assert asked == []


@pytest.mark.requirement("GR-05")
def test_the_longest_text_that_fits_is_sent_over_openapi(server: str) -> None:
    with connect_sync(server, protocol="openapi", agree=lambda _: True) as remote:
        assert remote.call("count", {"text": "x" * 32_000}) == Value(32_000)


@pytest.mark.requirement("GR-05")
def test_a_url_that_is_too_long_is_called_too_long_and_nothing_else() -> None:
    refused = admit(f"http://127.0.0.1:1/{'x' * 40_000}")
    assert isinstance(refused, Problem)
    assert refused.message == "This URL is longer than 32,768 characters. Send less data in it."
    assert isinstance(admit(f"http://127.0.0.1:1/{'x' * 32_000}"), Target)
