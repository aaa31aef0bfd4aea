"""A call that only reads is a GET over OpenAPI: what is too long for a URL goes by QUERY, or the refusal names it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from toolwire import Kind, Problem, Toolkit, Value, asgi, connect_sync
from toolwire.client.transport.url_policy import Target, admit
from toolwire.core.check import Question
from toolwire.testing.loopback import background


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    kit = Toolkit("Texts")

    @kit.tool(approval="auto", safe=True)
    def count(text: str, other: str = "") -> int:
        """Count the characters."""
        return len(text) + len(other)

    @kit.tool(approval="auto", safe=True)
    def join(words: list[str], number: int) -> str:
        """Join words."""
        return "|".join([*words, str(number)])

    @kit.tool(approval="per-call", safe=True)
    def check(text: str) -> int:
        """Check a text."""
        return len(text)

    @kit.tool(approval="per-call")
    def note(text: str) -> int:
        """Note a text."""
        return len(text)

    with background(asgi(kit)) as url:
        yield url


@pytest.mark.requirement("GR-05")
@pytest.mark.parametrize("text", ["x" * 40_000, "a b" * 11_000, "ä%+&=" * 9_000])
def test_a_text_that_is_too_long_for_a_url_goes_by_query(server: str, text: str) -> None:
    asked: list[Any] = []
    with connect_sync(server, protocol="openapi", approve=asked.append, agree=lambda _: True) as remote:
        assert remote.call("count", {"text": text, "other": "short"}) == Value(len(text) + 5)
        assert remote.call("join", {"words": [text, "a,b"], "number": 3}) == Value(f"{text}|a,b|3")
    assert asked == [], "a read without a question stays one"


@pytest.mark.requirement("GR-05")
def test_question_about_a_long_text_shows_the_request_that_is_sent(server: str) -> None:
    asked: list[Question] = []
    with connect_sync(
        server, protocol="openapi", approve=lambda one: asked.append(one) or True, agree=lambda _: True
    ) as remote:
        assert remote.call("check", {"text": "x" * 40_000}) == Value(40_000)
        assert remote.call("check", {"text": "x"}) == Value(1)
    assert [one.target for one in asked] == [f"QUERY {server}/api/check", f"GET {server}/api/check?text=x"]


@pytest.mark.requirement("GR-05")
@pytest.mark.parametrize("text", ["x" * 40_000, "a b" * 11_000, "ä" * 9_000])
def test_a_server_that_takes_no_query_gets_none_and_the_refusal_names_the_argument(
    server: str, tmp_path: Path, text: str
) -> None:
    document = httpx2.get(f"{server}/openapi.json").json()
    del document["x-accept-query"]
    document["servers"] = [{"url": server}]
    file = tmp_path / "texts.json"
    file.write_text(json.dumps(document))
    asked: list[Any] = []
    with connect_sync(str(file), approve=asked.append, agree=lambda _: True) as remote:
        problem = remote.call("count", {"text": text, "other": "short"})
    assert isinstance(problem, Problem)
    assert (problem.kind, list(problem.parameter_errors), asked) == (Kind.INVALID_ARGUMENTS, ["text"], [])
    assert "text: is too long for a URL, which would have" in problem.message
    assert "can have 32,768" in problem.message
    assert "--protocol mcp, otc or opentool" in problem.message


@pytest.mark.requirement("GR-05")
def test_query_takes_json_and_refuses_what_it_cannot_read(server: str) -> None:
    def ask(kind: str, body: bytes) -> tuple[int, str]:
        answer = httpx2.request("QUERY", f"{server}/api/count", headers={"content-type": kind}, content=body)
        return answer.status_code, answer.text

    form = "application/x-www-form-urlencoded"
    assert ask("application/json", b'{"text": "abc"}') == (200, "3")
    assert ask(f"{form}; charset=utf-8", "text=ä+b".encode()) == (200, "3")
    assert ask(form, b"text=\xff")[0] == 400
    assert ask(form, b"text=%ff")[0] == 400
    assert ask("text/plain", b"text=a")[0] == 415
    assert httpx2.request("QUERY", f"{server}/api/note", content=b"{}").status_code == 405


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
