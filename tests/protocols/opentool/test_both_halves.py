"""The client half speaks with the server half, and both read the messages of real implementations."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Finding, Peer, Pending, Streaming
from toolwire.core.http import Request, Response
from toolwire.core.model import Call, Kind, Problem, Result, Tool, Value
from toolwire.protocols.opentool import CODEC

Drive = Callable[..., Any]
Wire = Callable[[Catalog], Callable[[Request], Any]]
VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "opentool.json").read_text(encoding="utf-8"))
REQUESTS = [vector for vector in VECTORS if vector["half"] == "request"]
RESPONSES = [vector for vector in VECTORS if vector["half"] == "response"]


def parametrize_vectors(vectors: list[Any]) -> Any:
    return pytest.mark.parametrize("vector", vectors, ids=[f"{one['name']} ({one['source']})" for one in vectors])


def request_of(vector: Any, body: Any) -> Request:
    headers = [(name.encode(), value.encode()) for name, value in vector["headers"].items()]
    return Request(vector["method"], vector["path"], headers, b"" if body is None else json.dumps(body).encode())


def read_answer(drive: Drive, vector: Any, body: Any) -> Any:
    """Return what the client makes of ``body`` in the place of the answer that ``vector`` is."""
    response = Response(vector["status"], (), json.dumps(body).encode())
    if vector["method"] == "POST":
        peer = Peer(protocol="opentool", url="http://shop.test/opentool", catalog=Catalog())
        tool = Tool(name="create", output_schema={"type": "integer"})
        return drive(CODEC.send(peer, Call(tool, {}, str(vector["body"].get("id") or "1"))), lambda _: response)
    version, load = (response, Response(200, (), b"{}")) if "version" in vector["path"] else (None, response)
    known = version or Response(200, (), b'{"version":"1"}')
    return drive(CODEC.find("http://shop.test"), lambda asked: known if asked.url.endswith("/version") else load)


def edits(data: Any, path: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield ``data`` with one spot gone or replaced, for every spot."""
    here = data
    for step in path:
        here = here[step]
    for step in list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ():
        for replacement in (..., None, 7, "x", [], {}, True, -1.5):
            edited = copy.deepcopy(data)
            spot = edited
            for one in path:
                spot = spot[one]
            if replacement is ...:
                del spot[step]
            else:
                spot[step] = replacement
            yield edited
        yield from edits(data, (*path, step))


@parametrize_vectors(REQUESTS)
@pytest.mark.requirement("OTRPC-002", "OTRPC-004", "OTRPC-013", "S-4")
def test_server_reads_requests_of_real_clients(vector: Any, store: Catalog, wire: Wire) -> None:
    reading = wire(store)(request_of(vector, vector["body"]))
    if vector["method"] == "GET":
        assert reading.status == 200
        return
    assert isinstance(reading, Streaming if "stream" in vector["path"] else Pending)
    assert reading.call.tool.name == vector["body"]["method"]
    assert reading.call.arguments == vector["body"].get("params", {})


@parametrize_vectors(RESPONSES)
@pytest.mark.requirement("C-2", "C-3", "C-4", "C-5", "C-6", "C-7")
def test_client_reads_responses_of_real_servers(vector: Any, drive: Drive) -> None:
    found = read_answer(drive, vector, vector["body"])
    if isinstance(found, Finding):
        assert found.peer is not None
        assert len(found.peer.catalog.tools) == len(vector["body"].get("functions", []))
    elif vector["name"].startswith("success"):
        assert found == Value(1)
    else:
        assert isinstance(found, Problem)
        assert found.kind is not Kind.BAD_ANSWER
        assert "{" not in found.message
        assert " at " not in found.message


@parametrize_vectors(REQUESTS)
@pytest.mark.requirement("S-5", "S-16")
def test_a_request_one_edit_away_is_read_or_refused(vector: Any, store: Catalog, wire: Wire) -> None:
    read = wire(store)
    for edited in edits(vector["body"]):
        reading = read(request_of(vector, edited))
        if isinstance(reading, Response):
            assert reading.status in (200, 400)
            assert b'"error":' in reading.body


@parametrize_vectors(RESPONSES)
def test_response_with_one_random_edit_is_a_result_or_a_finding(vector: Any, drive: Drive) -> None:
    for edited in edits(vector["body"]):
        assert isinstance(read_answer(drive, vector, edited), Finding | Value | Problem)


def talk(drive: Drive, wire: Wire, catalog: Catalog, name: str, arguments: Any, outcome: Result) -> Any:
    """Return what a client hears of a call that ends in ``outcome``, with what the server read checked."""
    read = wire(catalog)
    peer = drive(CODEC.find("http://shop.test"), read).peer

    def serve(request: Request) -> Response:
        pending = read(request)
        assert pending.call.arguments == arguments
        assert pending.call.tool is catalog.names[name]
        response = pending.reply(outcome, 1.0)
        assert isinstance(response, Response)
        return response

    return drive(CODEC.send(peer, Call(peer.catalog.names[name], arguments, "c1")), serve)


def test_client_finds_the_catalog_that_the_server_offers(store: Catalog, drive: Drive, wire: Wire) -> None:
    found = drive(CODEC.find("http://shop.test/opentool/"), wire(store))
    assert found.peer.catalog == store


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda one: st.lists(one, max_size=3) | st.dictionaries(texts, one, max_size=3),
    max_leaves=8,
)
ANYTHING = Catalog(title="Any", tools=(Tool(name="any", toolkit="Any"),))


@pytest.mark.requirement("OTRPC-007", "OTRPC-009", "OT-029", "S-6")
@given(arguments=st.dictionaries(texts, values, max_size=3), value=values)
def test_arguments_and_values_arrive_unchanged(drive: Drive, wire: Wire, arguments: Any, value: Any) -> None:
    assert talk(drive, wire, ANYTHING, "any", arguments, Value(value)) == Value(value)


@pytest.mark.requirement("OTRPC-010", "A-13")
@given(
    problem=st.builds(
        Problem,
        kind=st.sampled_from(sorted(set(Kind) - {Kind.UNREACHABLE, Kind.BAD_ANSWER, Kind.UNAUTHORIZED})),
        message=st.text("abc é", min_size=1).filter(str.strip).map(str.strip),
        can_retry=st.booleans(),
        retry_after_ms=st.none() | st.integers(0, 10**9),
        additional_prompt_content=st.none() | st.text("abc", min_size=1),
        parameter_errors=st.dictionaries(texts, texts, max_size=2),
        details=st.dictionaries(texts, values, max_size=2),
    )
)
def test_problem_arrives_unchanged(drive: Drive, wire: Wire, problem: Problem) -> None:
    assert talk(drive, wire, ANYTHING, "any", {}, problem) == problem


@pytest.mark.requirement("OTRPC-024", "S-7")
def test_client_reports_a_missing_key(drive: Drive, wire: Wire) -> None:
    problem = talk(drive, wire, ANYTHING, "any", {}, Problem(kind=Kind.UNAUTHORIZED, message="No key."))
    assert problem.kind is Kind.UNAUTHORIZED
