"""Check that neither half of a codec raises an exception, whatever message it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tests.support.wire import CannedTransport
from toolwire.client.transport.drivers import run
from toolwire.core.catalog import Catalog
from toolwire.core.codec import CallQuery, Codec, Finding, Peer, Pending, Routes, SessionStart, Streaming, Subscription
from toolwire.core.http import Request, Response
from toolwire.core.model import Call, Json, Kind, Problem, Progress, Result, Value

_ENDS: tuple[Result, ...] = (Value(None), Value({"a": [1]}), Problem(kind=Kind.TOOL_FAILED, message="No."))
_EMPTY = Catalog(title="Empty")

Answers: TypeAlias = Callable[[Request], Response | Problem]


def find_reading_faults(routes: Routes, request: Request) -> Iterator[str]:
    """Yield the faults of the server half when it reads ``request``. An unknown path is no fault."""
    route = routes.get((request.method, request.url.partition("?")[0]))
    if route is None:
        return
    try:
        yield from _check_reading(route.read(request))
    except Exception as error:  # noqa: BLE001 - any exception is the fault that this function reports
        yield f"reading {request!r} raised {error!r}"


def find_replying_faults(
    codec: Codec, url: str, answers: Answers, call: tuple[Peer, Call] | None = None
) -> Iterator[str]:
    """Yield the faults of the client half when it gets ``answers``, in discovery of ``url`` or in ``call``.

    If discovery finds tools, each of them is called once.
    """
    try:
        if call is not None:
            yield from _check_result(run(codec.send(*call), CannedTransport(answers)))
            return
        finding = run(codec.find(url), CannedTransport(answers))
        if not isinstance(finding, Finding):
            yield f"discovery returned {finding!r}"
        elif finding.peer is not None:
            yield from _check_peer(codec, finding.peer, answers)
    except Exception as error:  # noqa: BLE001 - any exception is the fault that this function reports
        yield f"raised {error!r}"


def _check_reading(reading: object) -> Iterator[str]:
    match reading:
        case Response():
            yield from _check_response(reading)
        case Pending():
            for result in _ENDS:
                yield from _check_response(reading.reply(result, 1.0))
        case Streaming():
            yield from _check_response(reading.refuse(Problem(kind=Kind.OVERLOADED, message="Busy.")))
            pieces: Sequence[Any] = [reading.frame(Progress(1)), *(reading.closing(result, 1.0) for result in _ENDS)]
            if not all(isinstance(piece, bytes) for piece in pieces):
                yield "a stream has a piece that is not bytes"
        case Subscription():
            yield from _check_response(reading.refuse(Problem(kind=Kind.OVERLOADED, message="Busy.")))
            if not all(isinstance(piece, bytes) for piece in (reading.opening(_EMPTY), reading.closing)):
                yield "a subscription has a piece that is not bytes"
        case SessionStart():
            for response in (reading.stateless, reading.lasting):
                yield from _check_response(response)
        case CallQuery():
            yield from _check_response(reading.reply(Problem(kind=Kind.NOT_FOUND, message="There is none.")))
        case _:
            yield f"the reader returned {reading!r}"


def _check_response(response: object) -> Iterator[str]:
    if not isinstance(response, Response) or not 200 <= response.status < 600:
        yield f"the answer is {response!r}"
    elif b"Traceback" in response.body:
        yield "the answer has a traceback"


def _check_peer(codec: Codec, peer: Peer, answers: Answers) -> Iterator[str]:
    for tool in peer.catalog.tools:
        call = Call(tool, {name: _build_example(schema) for name, schema in tool.parameters.items()}, "c1")
        if not isinstance(codec.target(peer, call), str):
            yield f"the target of {tool.name} is not a string"
        yield from _check_result(run(codec.send(peer, call), CannedTransport(answers)))


def _check_result(result: object) -> Iterator[str]:
    if not isinstance(result, Value | Problem):
        yield f"the result is {result!r}"
    elif isinstance(result, Problem) and not isinstance(result.message, str):
        yield f"the message of the Problem is {result.message!r}"


_EXAMPLES: dict[str, Json] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def _build_example(schema: Json) -> Json:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return _EXAMPLES.get(kind, "x") if isinstance(kind, str) else "x"
