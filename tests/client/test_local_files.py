"""Bytes of a result stay here under a handle, and go out again as a file by that handle alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolwire import Kind, Problem, Value, connect_sync

CAT = b"\x89PNG\x00cat"
BINARY = {"type": "string", "format": "binary"}
FORM = {"type": "object", "properties": {"photo": BINARY, "title": {"type": "string"}}, "required": ["photo"]}


def operation(name: str, takes: dict[str, Any] | None = None, gives: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return an operation with the content it takes and gives."""
    response = {"200": {"description": "", "content": gives}} if gives else {"204": {"description": ""}}
    body = {"requestBody": {"required": True, "content": takes}} if takes else {}
    return {"operationId": name, "x-llm": {}, "responses": response, **body}


DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": "Photos", "version": "1"},
    "x-llm": {"defaultApproval": "auto"},
    "paths": {
        "/cat": {"get": operation("getCat", gives={"image/png": {"schema": BINARY}})},
        "/photos": {"post": operation("addPhoto", takes={"multipart/form-data": {"schema": FORM}})},
        "/raw": {"put": operation("putRaw", takes={"application/octet-stream": {"schema": BINARY}})},
    },
}


@pytest.fixture
def photos(listen: Any, encode_response: Any) -> Any:
    """A listener that serves the document, a picture, and takes files."""
    answers = {
        "/openapi.json": encode_response(json.dumps(DOCUMENT).encode(), "content-type: application/json"),
        "/cat": encode_response(CAT, "content-type: image/png"),
        "/photos": encode_response(b"", status="204 No Content"),
        "/raw": encode_response(b"", status="204 No Content"),
    }
    return listen(lambda seen: [answers.get(seen.line.split()[1], encode_response(b"", status="404 Not Found"))])


def open_connection(photos: Any) -> Any:
    return connect_sync(photos.origin, protocol="openapi", approve=lambda question: True)


@pytest.mark.requirement("XL-100", "CV-13", "CV-14", "D-35")
def test_downloaded_picture_can_be_uploaded_by_its_handle(photos: Any) -> None:
    with open_connection(photos) as remote:
        got = remote.call("getCat")
        assert isinstance(got, Value)
        handle = got.value["resource"]
        assert got.value == {"media_type": "image/png", "bytes_len": len(CAT), "resource": handle}
        assert remote.resource(handle).data == CAT
        assert remote.call("addPhoto", {"photo": handle, "title": "Cat"}) == Value({"ok": True, "status": 204})
        assert remote.call("putRaw", {"body": remote.store(b"mine", name="x.bin")}) == Value(
            {"ok": True, "status": 204}
        )
    multipart, raw = photos.requests[-2:]
    assert CAT in multipart.body
    assert b'name="photo"; filename="photo.png"\r\ncontent-type: image/png' in multipart.body
    assert (raw.body, raw.headers["content-type"]) == (b"mine", "application/octet-stream")


@pytest.mark.requirement("D-35", "XL-086")
@pytest.mark.parametrize("path", ["/etc/passwd", "file:///etc/passwd", "resource:" + "a" * 32])
def test_local_path_as_file_is_refused_before_question_and_request(photos: Any, path: str) -> None:
    asked: list[object] = []
    with connect_sync(
        photos.origin, protocol="openapi", approve=lambda question: bool(asked.append(question))
    ) as remote:
        before = len(photos.requests)
        results = [remote.call("addPhoto", {"photo": path}), remote.call("putRaw", {"body": path})]
    for result, argument in zip(results, ("photo", "body"), strict=True):
        assert isinstance(result, Problem)
        assert (result.kind, list(result.parameter_errors)) == (Kind.INVALID_ARGUMENTS, [argument])
    assert (asked, len(photos.requests)) == ([], before)


def test_resource_handle_is_invalid_on_another_connection(photos: Any) -> None:
    with open_connection(photos) as one, open_connection(photos) as other:
        handle = one.store(CAT)
        assert other.resource(handle) is None
        assert isinstance(other.call("putRaw", {"body": handle}), Problem)
