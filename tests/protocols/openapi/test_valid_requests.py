"""Whatever arguments a document accepts are sent as an independent writer says, byte for byte, and nothing else is."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from toolwire import Session, connect_sync
from toolwire.core.model import Kind, Problem
from toolwire.core.selection import Selection

from . import written_requests as written
from .made_requests import FORM, Document, Made, documents

ALL = Selection(include="all")
OWN_FIELDS = {
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "user-agent",
}


class Echo:
    """A server of one document that keeps each other request as it came: head and body, untouched."""

    def __init__(self) -> None:
        self.document = b""
        self.heard: list[tuple[str, list[tuple[str, str]], bytes]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while line := stream.readline():
                fields = []
                while (field := stream.readline()) not in (b"\r\n", b""):
                    name, _, value = field.decode("latin-1").removesuffix("\r\n").partition(": ")
                    fields.append((name.lower(), value))
                body = stream.read(int(dict(fields).get("content-length", 0)))
                is_document = line.startswith(b"GET /document.json ")
                if not is_document:
                    self.heard.append((line.decode("latin-1").removesuffix("\r\n"), fields, body))
                reply = self.document if is_document else b"{}"
                head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(reply)
                connection.sendall(head + reply)


class Expected:
    """The request that the specifications ask for."""

    def __init__(self, document: Document, given: list[tuple[Made, Any]]) -> None:
        self._document = document
        self._given = [pair for pair in given if pair[0].place not in ("form", "formData")]
        self._form = {one.name: value for one, value in given if one.place in ("form", "formData")}
        self._nodes = {one.name: one.node for one in document.properties}
        ((self._path, item),) = document.text["paths"].items()
        self._method = next(iter(item)).upper()

    def may_be_refused(self) -> bool:
        """Return whether any argument cannot stand where it has to go."""
        return any(
            written.may_be_refused(one.place, self._text(one, value) or "")
            for one, value in self._given
            if self._text(one, value) is not None or one.place == "path"
        )

    def check(self, line: str, fields: list[tuple[str, str]], body: bytes) -> None:
        """Compare a request with what is asked for."""
        method, target, version = line.split(" ")
        assert (method, version) == (self._method, "HTTP/1.1")
        path, mark, query = target.partition("?")
        before, after = re.split(r"\{[^}]*\}", written.escape(self._path, "/{}") + ("" if "{" in self._path else "{}"))
        assert path.startswith(before)
        assert path.endswith(after)
        self._match("path", path[len(before) : len(path) - len(after)], "")
        self._match("querystring" if self._has("querystring") else "query", query, "&")
        assert bool(mark) is bool(query)
        received = dict(fields)
        assert len(received) == len(fields)
        self._match("cookie", received.get("cookie", ""), "; ")
        for one, value in self._given:
            if one.place == "header":
                text = self._text(one, value)
                assert self._is_said(one, value, received.pop(one.name.lower(), ""), text or ""), (one, value, fields)
        assert received.keys() <= OWN_FIELDS
        self._check_body(received.get("content-type", ""), body)

    def _has(self, place: str) -> bool:
        return any(one.place == place for one, _ in self._given)

    def _match(self, place: str, text: str, between: str) -> None:
        """Take each parameter off ``text``; nothing is left of it."""
        rest, first = text, True
        for one, value in self._given:
            piece = self._text(one, value) if one.place == place else None
            if not piece:
                continue
            rest = rest if first or not between else rest.removeprefix(between)
            taken = (
                re.match("[^;]*" if place == "cookie" else "[^&]*", rest)
                if "content" in one.node and place != "querystring"
                else None
            )
            reply = taken[0] if taken else rest if "content" in one.node else rest[: len(piece)]
            assert self._is_said(one, value, reply, piece), (one, value, text, piece)
            rest, first = rest[len(reply) :], False
        assert rest == "", (text, self._given)

    def _text(self, one: Made, value: Any) -> str | None:
        if self._document.version == "2.0":
            return written.write_collection(one.place, one.node, one.name, value)
        if "content" in one.node:
            ((media_type, media),) = one.node["content"].items()
            text = written.content(media_type, value, media.get("encoding", {}))
            if one.place in ("query", "cookie"):
                is_raw = one.place == "cookie" and media_type != "application/json"
                encoded = text if is_raw else written.escape(text)
                name = one.name if one.place == "cookie" else written.escape(one.name)
                return f"{name}={encoded}"
            if one.place == "querystring" and media_type == FORM:
                return text
            return text if one.place == "header" else written.escape(text)
        return written.write_styled(one.place, self._document.version, one.node, one.name, value)

    @staticmethod
    def _is_said(one: Made, value: Any, said: str, piece: str) -> bool:
        """Return whether ``said`` is ``piece``, or other JSON text of the same value."""
        if said == piece or "application/json" not in one.node.get("content", ()):
            return said == piece
        name, _, text = said.rpartition("=") if one.place in ("query", "cookie") else ("", "", said)
        plain = text if one.place == "header" else unquote(text)
        is_whole = one.place == "header" or text == written.escape(plain)
        return is_whole and name == piece.rpartition("=")[0] and bool(json.loads(plain) == value)

    def _check_body(self, media_type: str, body: bytes) -> None:
        form, old = self._document.form, self._document.version == "2.0"
        if not form or (old and not self._form and not any(one.required for one in self._document.properties)):
            assert (media_type, body) == ("", b"")
            return
        reply, _, boundary = media_type.partition("; boundary=")
        assert reply == form
        if form == FORM:
            fields = (
                [
                    written.write_collection("query", self._nodes[name], name, value)
                    for name, value in self._form.items()
                ]
                if old
                else written.form_fields(self._form, self._document.encodings)
            )
            assert body.decode() == "&".join(fields)
            return
        files = frozenset(name for name, node in self._nodes.items() if node.get("format") == "binary")
        styles = self._document.version != "3.0.4"
        expected = (
            written.list_collection_parts(self._form, self._nodes)
            if old
            else written.form_parts(self._form, self._document.encodings, files, styles=styles)
        )
        parts = written.parts_of(body, boundary)
        assert [(fields.get("content-type", ""), data) for fields, data in parts] == [part[1:] for part in expected]
        for (fields, _), (name, _, _) in zip(parts, expected, strict=True):
            disposition = f'form-data; name="{written.quote_name(name)}"'
            is_file = name in files
            assert fields["content-disposition"].partition("; filename=")[:: 2 if is_file else 1][0] == disposition
            assert ("; filename=" in fields["content-disposition"]) is is_file
            assert fields.keys() <= {"content-disposition", "content-type"}


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    with closing(Echo()) as server:
        yield server


@pytest.mark.requirement("CV-01", "CV-02", "CV-03", "CV-05", "CV-12", "CV-13", "CV-16", "CV-23", "CV-28", "CV-29")
@given(document=documents(), data=st.data())
def test_valid_arguments_are_sent_as_the_specification_requires(
    echo: Echo, document: Document, data: st.DataObject
) -> None:
    echo.document = json.dumps(document.text).encode()
    with connect_sync(f"{echo.url}/document.json", session=Session(), selection=ALL, approve=lambda _: True) as remote:
        (tool,) = remote.tools
        shown = {schema["description"][:3]: name for name, schema in tool.input_schema["properties"].items()}
        marked = {f"P{n}:": one for n, one in enumerate(document.parameters)}
        marked |= {f"F{n}:": one for n, one in enumerate(document.properties)}
        assert shown.keys() == marked.keys()  # all that is declared is shown, and nothing else
        for turn in (0, 1):
            given = {mark: one.values[turn] for mark, one in marked.items() if one.required or data.draw(st.booleans())}
            echo.heard.clear()
            result = remote.call(tool.id, {shown[mark]: value for mark, value in given.items()})
            expected = Expected(document, [(marked[mark], value) for mark, value in given.items()])
            if isinstance(result, Problem):
                event("refused")
                assert result.kind is Kind.INVALID_ARGUMENTS, result
                assert echo.heard == []
                assert expected.may_be_refused(), (given, result)
                continue
            event(f"sent, {document.version}")
            ((line, fields, body),) = echo.heard
            expected.check(line, fields, body)
