"""Calls that a model must be able to make of well-known services: what it says, and what the vendor's guide shows.

Each call is written by hand. It must be accepted by our input schema, be sent as the guide has it, and every name in it
must be in what a model reads, as must the values that are not free text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from email import policy
from email.parser import BytesParser
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from toolwire.core.check import ALLOW
from toolwire.core.codec import Listen
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Call, Problem, Tool
from toolwire.core.selection import Selection
from toolwire.framing.tool_description import describe_tool
from toolwire.protocols.openapi import CODEC
from toolwire.validation import build_arguments_check

Pairs: TypeAlias = list[tuple[str, str]]

_HOME = "https://calls.test/openapi.json"
_FREE = frozenset(("additionalProperties", "labels", "matchLabels", "metadata", "custom_fields"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Guided:
    """One call: of an operation of a document, with ``arguments``, and how it goes over the wire.

    ``body`` is JSON data, or the pairs of a form; ``parts`` are name and text of those of a multipart body. ``seen``
    are values that a model must be able to read beside the names. ``free`` are names that are the caller's own.
    """

    document: str
    method: str
    path: str
    arguments: Mapping[str, Any]
    sent: str
    query: Pairs = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    parts: Pairs = field(default_factory=list)
    media_type: str = "application/json"
    seen: tuple[str, ...] = ()
    free: frozenset[str] = frozenset()


def judge_call(call: Guided, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence for each thing that is not as the vendor's guide has it."""
    peer = _read(document)
    if peer is None:
        yield "the document cannot be read"
        return
    tool = _tool(peer, call)
    if tool is None:
        yield "its operation is no tool"
        return
    verdict = build_arguments_check()(Call(tool, call.arguments))
    if verdict is not ALLOW:
        yield f"its arguments are refused: {verdict}"[:600]
    yield from _unseen(call, tool)
    peer = replace(peer, origins=_Anywhere())
    flow = CODEC.send(peer, Call(tool, call.arguments))
    try:
        asked = next(flow)
    except StopIteration as stop:
        yield f"it cannot be sent: {stop.value.message if isinstance(stop.value, Problem) else stop.value}"[:600]
        return
    flow.close()
    request = asked.request if isinstance(asked, Listen) else asked
    assert isinstance(request, Request)
    yield from _otherwise(call, request)


class _Anywhere:
    """Every origin: nothing is sent here, it is only looked at."""

    def __contains__(self, origin: object) -> bool:
        return True


def _read(document: Mapping[str, Any]) -> Any:
    assert CODEC.find_selected is not None
    flow = CODEC.find_selected(_HOME, Selection(include="all"))
    text = json.dumps(document).encode()
    try:
        asked = next(flow)
        while True:
            found = isinstance(asked, Request) and asked.url == _HOME
            asked = flow.send(
                Response(200, ((b"content-type", b"application/json"),), text) if found else Response(404)
            )
    except StopIteration as stop:
        return stop.value.peer


def _tool(peer: Any, call: Guided) -> Tool | None:
    for tool in peer.catalog.tools:
        facts = tool.hints["openapi"]
        if (facts["method"], facts["path"]) == (call.method, call.path):
            return tool  # type: ignore[no-any-return]  # a peer of ours, as Any
    return None


def _unseen(call: Guided, tool: Tool) -> Iterator[str]:
    """Yield each name or value that a model cannot read anywhere in the tool."""
    text = json.dumps(tool.input_schema, default=dict) + describe_tool(tool)
    for name in dict.fromkeys(_names(call.arguments, call.free)):
        if not _says(text, name):
            yield f"a model does not see the name {name!r}"
    for value in call.seen:
        if not _says(text, value):
            yield f"a model does not see the value {value!r}"


def _says(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def _names(data: Any, free: frozenset[str]) -> Iterator[str]:
    if isinstance(data, Mapping):
        for name, inner in data.items():
            yield name
            if name not in _FREE and name not in free:
                yield from _names(inner, free)
    elif isinstance(data, list):
        for one in data:
            yield from _names(one, free)


def _otherwise(call: Guided, request: Request) -> Iterator[str]:
    """Yield how ``request``, read by the standard library, differs from what the guide shows."""
    parts = urlsplit(request.url)
    found: list[tuple[str, Any, Any]] = [
        ("method", request.method, call.method),
        ("path", unquote(parts.path), call.sent),
        ("query", parse_qsl(parts.query, keep_blank_values=True), call.query),
    ]
    found += [(name, get_header(request.headers, name.encode()), value) for name, value in call.headers.items()]
    media_type = get_header(request.headers, b"content-type")
    if call.body is None and not call.parts:
        found.append(("body", request.body, b""))
    else:
        found.append(("content type", media_type.partition(";")[0], call.media_type))
    if call.parts:
        found.append(("parts", _parts(media_type, request.body), call.parts))
    elif call.media_type == "application/x-www-form-urlencoded":
        found.append(("form", sorted(parse_qsl(request.body.decode(), keep_blank_values=True)), sorted(call.body)))
    elif call.body is not None:
        found.append(("body", json.loads(request.body or b"null"), call.body))
    for what, got, wanted in found:
        if got != wanted:
            yield f"its {what} is {got!r}, not {wanted!r}"[:1_000]


def _parts(media_type: str, body: bytes) -> Pairs:
    whole = BytesParser(policy=policy.HTTP).parsebytes(f"content-type: {media_type}\r\n\r\n".encode() + body)
    return [
        (str(one.get_param("name", header="content-disposition")), one.get_payload(decode=True).decode())
        for one in whole.iter_parts()
    ]


def judge_all(folder: Path, calls: tuple[Guided, ...]) -> Iterator[tuple[Guided, list[str] | None]]:
    """Yield each call with what is wrong with it; None where its document is not in ``folder``."""
    known: dict[str, Any] = {}
    for call in calls:
        path = folder / call.document
        if not path.is_file():
            yield call, None
            continue
        if call.document not in known:
            known = {call.document: json.loads(path.read_text())}
        yield call, list(judge_call(call, only(known[call.document], call.path)))


def only(document: dict[str, Any], path: str) -> dict[str, Any]:
    """Return ``document`` with one of its paths: the others cost time, and nothing here is about them."""
    return {**document, "paths": {path: document["paths"][path]}} if path in document["paths"] else document
