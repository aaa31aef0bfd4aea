"""Every message that is one edit away from a good one is answered, by both halves."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.conformance import (
    BEHAVIOURS,
    CodecConnection,
    build_kit,
    find_reading_faults,
    find_replying_faults,
    generate_edits,
    open_session,
)
from tests.support.wire import HERE, CannedTransport, RecordedExchange
from toolwire.client.transport.drivers import run
from toolwire.core.codec import Codec, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Call, Problem
from toolwire.define import Toolkit
from toolwire.protocols import BUILTIN

Answers = Callable[[Request], Response | Problem]
VECTORS = Path(__file__).parents[1] / "vectors"
RECORDED = (
    "check_calls",
    "check_none_result",
    "check_tool_errors",
    "check_timeouts",
    "check_arguments",
    "check_unknown_tools",
)


@cache
def record_session(codec: Codec) -> tuple[CodecConnection, int]:
    """Return a session after every sort of call, and how many of its exchanges found the server."""
    with open_session(codec) as joined:
        found = len(joined.exchanges)
        for name in RECORDED:
            assert list(BEHAVIOURS[name](joined)) == []
    return joined, found


def small() -> Toolkit:
    """Return a toolkit of one tool that says all there is to say."""
    tools = Toolkit("Desk", version="2.0.0", description="One tool.")

    @tools.tool(approval="per-call", cost="paid", rate_limit=(3, "1m"), hint="Sparingly.", blanket_allowed=True)
    def find(text: str, limit: int | None = None) -> list[str]:
        """Find something."""
        return [text] * (limit or 1)

    return tools


def distinct(exchanges: list[RecordedExchange]) -> list[RecordedExchange]:
    """Return exchanges that differ in more than ids and values: one for each call's path, status and size."""
    seen: dict[object, RecordedExchange] = {}
    for each in exchanges:
        shape = (each.request.method, each.request.url.partition("?")[0], each.response.status, len(each.request.body))
        seen.setdefault(shape, each)
    return list(seen.values())


def vectors(codec: Codec, half: str) -> Iterator[dict[str, Any]]:
    for vector in json.loads((VECTORS / f"{codec.name}.json").read_text()):
        if vector["half"] == half:
            yield vector


def fields(vector: dict[str, Any]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower().encode(), value.encode()) for name, value in vector["headers"].items())


def edits(body: bytes) -> Iterator[bytes]:
    try:
        data = json.loads(body)
    except ValueError:
        return
    for edit in generate_edits(data):
        yield json.dumps(edit.data).encode()


def test_generate_edits_deletes_and_replaces_each_place() -> None:
    edited = [(edit.spot, edit.change) for edit in generate_edits({"a": [1]})]
    assert len(edited) == 17
    assert edited.count((("a", 0), "deleted")) == 1
    assert [edit.data for edit in generate_edits({"a": [1]})][-1] == {"a": [{}]}
    assert [edit.data for edit in generate_edits({"a": [1]})][5] == {}


@pytest.mark.requirement("R5")
def test_the_server_half_answers_requests_one_edit_away(codec: Codec) -> None:
    routes = codec.routes(build_kit().catalog(), Site())
    joined, _ = record_session(codec)
    requests = [
        each.request._replace(url=each.request.url.removeprefix(HERE)) for each in distinct(joined.exchanges)
    ] + [
        Request(vector["method"], vector["path"], fields(vector), json.dumps(vector["body"]).encode(), "r1")
        for vector in vectors(codec, "request")
    ]
    tried = 0
    for request in requests:
        for body in edits(request.body):
            tried += 1
            assert list(find_reading_faults(routes, request._replace(body=body))) == [], body
    assert tried > 40


@pytest.mark.requirement("R5")
def test_client_half_reads_discovery_responses_with_one_edit(codec: Codec) -> None:
    tried = 0
    for answers, body in list_edited_listings(codec):
        tried += 1
        assert list(find_replying_faults(codec, HERE, answers)) == [], body
    assert tried > 100


@pytest.mark.requirement("R5")
def test_catalog_found_with_one_edit_can_be_served_again(codec: Codec) -> None:
    for answers, body in list_edited_listings(codec):
        peer = run(codec.find(HERE), CannedTransport(answers)).peer
        if peer is None:
            continue
        for other in BUILTIN:
            assert other.routes(peer.catalog, Site()), body


@pytest.mark.requirement("R5")
def test_client_half_reads_call_responses_with_one_edit(codec: Codec) -> None:
    joined, found = record_session(codec)
    tried = 0
    for each in distinct(joined.exchanges[found:]):
        for body in edits(each.response.body):
            tried += 1
            assert (
                list(find_replying_faults(codec, HERE, always(each.response._replace(body=body)), call_of(joined)))
                == []
            ), body
    assert tried > 50


@pytest.mark.requirement("R5")
def test_client_half_reads_vectors_with_one_edit(codec: Codec) -> None:
    joined, _ = record_session(codec)
    for vector in vectors(codec, "response"):
        good = Response(vector["status"], fields(vector), json.dumps(vector["body"]).encode())
        listing = vector["method"] == "GET"
        for body in edits(good.body):
            answers = always(good._replace(body=body))
            assert list(find_replying_faults(codec, HERE, answers, None if listing else call_of(joined))) == [], body


def list_edited_listings(codec: Codec) -> Iterator[tuple[Answers, bytes]]:
    """Yield answers to every look at a server, one of them edited, with the edited body."""
    with open_session(codec, small()) as joined:
        exchanges = list(joined.exchanges)
    answered = {(each.request.method, each.request.url): each.response for each in exchanges}
    for key, response in answered.items():
        for body in edits(response.body):
            yield by_url({**answered, key: response._replace(body=body)}), body


def by_url(answered: dict[tuple[str, str], Response]) -> Answers:
    return lambda request: answered.get((request.method, request.url), Response(404))


def always(response: Response) -> Answers:
    return lambda _: response


def call_of(joined: CodecConnection) -> tuple[Any, Call]:
    return joined.peer, Call(joined.peer.catalog.names["add"], {"a": 1, "b": 2}, "c1")


def test_every_protocol_has_vectors() -> None:
    for codec in BUILTIN:
        assert list(vectors(codec, "request"))
        assert list(vectors(codec, "response"))
