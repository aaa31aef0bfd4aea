"""What a person is asked says where each argument really goes, by the plan of the request, on every wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import toolwire
from toolwire import Answer, Approval, Preferences, Question, Toolkit, connect_sync
from toolwire.cli.terminal.terminal_approver import list_question
from toolwire.consent.display import build_display_rows
from toolwire.consent.question_page import build_question_page
from toolwire.protocols import BUILTIN
from toolwire.stores.consent.approvals import Approvals
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("XL-049")

ALL = Preferences(everything=Approval.PER_CALL)
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
PARAMETERS = [
    {"name": "id", "in": "path", "required": True, "schema": TEXT},
    {"name": "$top", "in": "query", "schema": {"type": "integer"}},
    {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
    {"name": "none", "in": "query", "schema": TEXTS},
    {"name": "X-Request", "in": "header", "schema": TEXT},
    {"name": "session", "in": "cookie", "schema": TEXT},
    {"name": "name", "in": "query", "schema": TEXT},
]
PROPERTIES = {"name": TEXT, "note": TEXT, "empty": TEXTS}
ARGUMENTS = {
    "id": "same",
    "top": 1,
    "filter": {"a": "same"},
    "none": [],
    "X-Request": "same",
    "session": "same",
    "name_query": "same",
    "name": "same",
    "note": "same",
}
PLACES = {
    "id": "in the path",
    "top": "in the query, as $top",
    "filter": "in the query",
    "none": "not sent: it is empty",
    "X-Request": "in the header X-Request",
    "session": "in the cookie",
    "name_query": "in the query, as name",
    "name": "in the {}",
    "note": "in the {}",
}


def document(media_type: str) -> bytes:
    body = {"content": {media_type: {"schema": {"type": "object", "properties": PROPERTIES}}}}
    operation = {"operationId": "save", "parameters": PARAMETERS, "requestBody": body, "x-llm": {}}
    info = {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "x-llm": {"version": "0.1"}}
    return json.dumps({**info, "paths": {"/things/{id}": {"post": operation}}}).encode()


def ask_and_return_question(
    listen: Any, said: Callable[..., bytes], document: bytes, arguments: dict[str, Any]
) -> Question:
    asked: list[Question] = []

    def answer(seen: Any) -> list[bytes]:
        found = seen.line.split()[1] == "/openapi.json"
        return (
            [said(document if found else b"1", "content-type: application/json")]
            if found
            else [said(b"", status="404 Not Found")]
        )

    def deny(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=False)

    with connect_sync(listen(answer).origin, approve=deny) as remote:
        remote.call("save", arguments)
    (question,) = asked
    return question


@pytest.mark.parametrize(
    ("media_type", "word"),
    [
        ("application/json", "body"),
        ("application/merge-patch+json; charset=utf-8", "body"),
        ("application/x-www-form-urlencoded", "form"),
        ("multipart/form-data", "form"),
    ],
)
def test_question_states_where_each_argument_is_sent(
    listen: Any, encode_response: Callable[..., bytes], tmp_path: Path, media_type: str, word: str
) -> None:
    question = ask_and_return_question(listen, encode_response, document(media_type), ARGUMENTS)
    expected = {name: place.format(word) for name, place in PLACES.items()}
    assert dict(question.places) == expected
    rows = build_display_rows(question)
    assert {row.label: row.note for row in rows if row.kind == "argument"} == expected
    terminal, page = "\n".join(list_question(rows)), unescape(build_question_page(question, "t"))
    approvals = Approvals(tmp_path)
    approvals.ask(question)
    (waiting,) = approvals.list_pending()
    for place in expected.values():
        assert place in terminal
        assert place in page
        assert place in [row.note for row in waiting.rows]


def test_question_states_which_form_arguments_are_not_sent(listen: Any, encode_response: Callable[..., bytes]) -> None:
    media_type = "application/x-www-form-urlencoded"
    question = ask_and_return_question(
        listen, encode_response, document(media_type), {"id": "1", "empty": [], "name": "x"}
    )
    assert question.places["empty"] == "not sent: it is empty"
    assert question.request is not None
    assert question.request.body == b"name=x"
    question = ask_and_return_question(
        listen, encode_response, document("application/json"), {"id": "1", "empty": [], "name": "x"}
    )
    assert question.places["empty"] == "in the body"


@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_every_protocol_states_where_its_arguments_are_sent(protocol: str) -> None:
    toolkit = Toolkit("Kit")

    @toolkit.tool(safe=True)
    def look(name: str, deep: bool = False) -> str:
        """Look."""
        return name

    @toolkit.tool
    def save(name: str) -> str:
        """Save."""
        return name

    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True)

    with (
        background(toolwire.asgi(toolkit)) as url,
        connect_sync(url, protocol=protocol, approve=approve, preferences=ALL) as remote,
    ):
        assert remote.call("look", {"name": "a", "deep": True}).ok
        assert remote.call("save", {"name": "a"}).ok
    read, written = asked
    reads = "in the query" if protocol == "openapi" else "in the body"
    assert dict(read.places) == {"name": reads, "deep": reads}
    assert dict(written.places) == {"name": "in the body"}
