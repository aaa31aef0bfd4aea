"""Everything that reads what somebody else wrote: only Problems and typed errors may come of any bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from tests.support.conformance import build_kit, find_reading_faults, find_replying_faults, open_session
from tests.support.wire import HERE
from toolwire import convert
from toolwire.core.codec import Codec, Peer, Routes, Site
from toolwire.core.http import JSON_HEADERS, Request, Response
from toolwire.core.model import Call, Json, Problem
from toolwire.core.selection import Selection
from toolwire.framing import jsontext, positions, xllm, yamltext
from toolwire.protocols import BUILTIN
from toolwire.protocols.openapi.document import overlay
from toolwire.protocols.openapi.tools import operations
from toolwire.protocols.opentool import document as opentool
from toolwire.protocols.opentool import validator
from toolwire.protocols.otc import document as otc

EVERY = Selection(include="all")


def read(data: bytes) -> None:
    """Give ``data`` to the reader that its first byte names.

    Raises:
        Exception: whatever is neither a Problem nor an error that the reader promises.
    """
    if data:
        tuple(READERS.values())[data[0] % len(READERS)](data[1:])


def _json(text: bytes) -> None:
    if isinstance(jsontext.read(text), Problem):
        positions.find_syntax_fault(text)


def _opentool(text: bytes) -> None:
    validator.check(text)
    opentool.read(_data(text))


def _otc(text: bytes) -> None:
    otc.read(_data(text), "Fuzz")


def _xllm(text: bytes) -> None:
    xllm.read(_data(text))


def _convert(text: bytes) -> None:
    convert.read(text)


def _document(text: bytes) -> None:
    data = _data(text)
    document = data if isinstance(data, dict) else {}
    if not operations.explain_unfit(document, EVERY):
        offer = operations.read_operations(document, "https://fuzz.test/openapi.json", EVERY)
        notes = operations.list_findings(offer)
        tools = len(offer.catalog.tools)
        if offer.memo.operations != tools + sum(note.operations for note in notes):
            raise AssertionError(f"{offer.memo.operations} operations are not {tools} tools and what was left out")
        for id_ in offer.memo.plans:
            offer.memo.plans[id_]


def _overlay(text: bytes) -> None:
    found = overlay.read(_data(text))
    if not isinstance(found, Problem):
        overlay.apply(found, {"openapi": "3.1.0", "info": {"title": "T"}, "paths": {"/a": {"get": {"tags": ["b"]}}}})


def _yaml(text: bytes) -> None:
    yamltext.read(text)


def _server(text: bytes) -> None:
    for routes in _served():
        for method, path in routes:
            _none(find_reading_faults(routes, Request(method, path, JSON_HEADERS, text, "r1")))


def _find(text: bytes) -> None:
    for codec in BUILTIN:
        _none(find_replying_faults(codec, HERE, lambda _: Response(200, JSON_HEADERS, text)))


def _send(text: bytes) -> None:
    for codec, peer in _joined():
        call = (peer, Call(peer.catalog.names["greet"], {"name": "Ada"}, "c1"))
        _none(find_replying_faults(codec, HERE, lambda _: Response(200, JSON_HEADERS, text), call))


READERS: Mapping[str, Callable[[bytes], None]] = {
    "json": _json,
    "opentool": _opentool,
    "otc": _otc,
    "x-llm": _xllm,
    "convert": _convert,
    "server": _server,
    "find": _find,
    "send": _send,
    "document": _document,
    "overlay": _overlay,
    "yaml": _yaml,
}


@cache
def _served() -> tuple[Routes, ...]:
    catalog = build_kit().catalog()
    return tuple(codec.routes(catalog, Site()) for codec in BUILTIN)


@cache
def _joined() -> tuple[tuple[Codec, Peer], ...]:
    found: list[tuple[Codec, Peer]] = []
    for codec in BUILTIN:
        with open_session(codec, build_kit()) as joined:
            found.append((codec, joined.peer))
    return tuple(found)


def _data(text: bytes) -> Json:
    data = jsontext.read(text)
    return None if isinstance(data, Problem) else data


def _none(faults: Iterable[object]) -> None:
    for fault in faults:
        raise AssertionError(fault)
