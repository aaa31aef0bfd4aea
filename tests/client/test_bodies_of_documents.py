"""A call of a document's operation: which body and path leave, and which answer comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolwire import Answer, connect_sync
from toolwire.core.model import Problem, Value
from toolwire.core.selection import Selection

XML = "application/xml"


def write_document(folder: Path, origin: str, path: str, operation: dict[str, Any], method: str = "post") -> str:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": origin}],
        "paths": {path: {method: {"operationId": "run", "responses": {"200": {"description": "ok"}}, **operation}}},
    }
    (folder / "api.json").write_text(json.dumps(document), encoding="utf-8")
    return str(folder / "api.json")


class Site:
    """A site that keeps what it gets, and answers with ``answer``."""

    def __init__(self, listen: Any, encode_response: Any, answer: bytes = b"{}") -> None:
        self.seen: list[Any] = []

        def reply(seen: Any) -> list[bytes]:
            self.seen.append(seen)
            return [encode_response(answer, "content-type: application/json")]

        self.origin = listen(reply).origin

    def call(self, folder: Path, path: str, operation: dict[str, Any], *calls: dict[str, Any]) -> Any:
        """Return the results of ``calls``, the input schema and the findings."""
        given = write_document(folder, self.origin, path, operation)
        with connect_sync(given, selection=Selection(include="all"), approve=lambda _: Answer(True)) as remote:
            schema = json.loads(json.dumps(remote.tools[0].input_schema, default=dict)) if remote.tools else None
            return [remote.call("run", one) for one in calls], schema, " ".join(map(str, remote.findings()))


@pytest.fixture
def site(listen: Any, encode_response: Any) -> Site:
    return Site(listen, encode_response)


def body(media_type: str, schema: Any, *, required: bool = True, **members: Any) -> dict[str, Any]:
    return {"requestBody": {"required": required, "content": {media_type: {"schema": schema, **members}}}}


@pytest.mark.requirement("O-28")
@pytest.mark.parametrize(
    ("media_type", "sent"),
    [
        ("application/x-ndjson", b'{"id":"1"}\n{"id":"2"}\n'),
        ("application/jsonl", b'{"id":"1"}\n{"id":"2"}\n'),
        ("application/json-seq", b'\x1e{"id":"1"}\n\x1e{"id":"2"}\n'),
    ],
)
@pytest.mark.parametrize("form", ["schema", "item", "itemSchema"])
def test_body_of_lines_is_a_list_of_items(tmp_path: Path, site: Site, media_type: str, sent: bytes, form: str) -> None:
    item = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    media = {"schema": {"type": "array", "items": item}} if form == "schema" else {"schema": item}
    operation = {
        "requestBody": {
            "required": True,
            "content": {media_type: {"itemSchema": item} if form == "itemSchema" else media},
        }
    }
    (good, bad), schema, _ = site.call(
        tmp_path, "/bulk", operation, {"body": [{"id": "1"}, {"id": "2"}]}, {"body": [{}]}
    )
    assert isinstance(good, Value)
    assert isinstance(bad, Problem)
    assert (site.seen[0].body, site.seen[0].headers["content-type"] == media_type) == (sent, True)
    assert schema["properties"]["body"]["items"]["required"] == ["id"]


@pytest.mark.requirement("O-28")
def test_number_as_plain_text_is_checked_and_written(tmp_path: Path, site: Site) -> None:
    calls = ({"body": 5}, {"body": -1}, {"body": "x"})
    results, _, _ = site.call(tmp_path, "/cut", body("text/plain", {"type": "integer", "minimum": 0}), *calls)
    assert [one.ok for one in results] == [True, False, False]
    assert [one.body for one in site.seen] == [b"5"]


@pytest.mark.requirement("O-28")
@pytest.mark.parametrize("media_type", ["application/*+json", "application/*", "*/*"])
def test_range_of_json_types_is_sent_as_json(tmp_path: Path, site: Site, media_type: str) -> None:
    schema = {"type": "object", "properties": {"k": {"type": "string"}}}
    site.call(tmp_path, "/e", body(media_type, schema), {"k": "x"})
    assert site.seen[0].body == b'{"k":"x"}'
    assert site.seen[0].headers["content-type"] == "application/json"


@pytest.mark.requirement("O-28")
@pytest.mark.parametrize(
    ("media_type", "text", "written"),
    [
        ("application/x-www-form-urlencoded", "a=1&b=2", "application/x-www-form-urlencoded"),
        ("multipart/mixed", "--x\r\n\r\nhi\r\n--x--\r\n", 'multipart/mixed; boundary="x"'),
    ],
)
def test_form_that_is_one_text_is_sent_as_given(
    tmp_path: Path, site: Site, media_type: str, text: str, written: str
) -> None:
    (good,), _, findings = site.call(tmp_path, "/f", body(media_type, {"type": "string"}), {"body": text})
    assert isinstance(good, Value)
    assert site.seen[0].body == text.encode()
    assert site.seen[0].headers["content-type"] == written
    assert "as one text" in findings


@pytest.mark.requirement("O-28")
def test_multipart_of_a_list_has_a_part_for_each_item(tmp_path: Path, site: Site) -> None:
    schema = {"type": "array", "items": {}}
    site.call(tmp_path, "/batch", body("multipart/mixed", schema), {"body": ["hi", {"a": 1}]})
    sent = site.seen[0].body
    assert b"content-type: text/plain\r\n\r\nhi\r\n" in sent
    assert b'content-type: application/json\r\n\r\n{"a":1}\r\n' in sent


@pytest.mark.requirement("O-28")
def test_part_of_xml_is_one_text_with_a_finding(tmp_path: Path, site: Site) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "object"}}}
    encoding = {"x": {"contentType": XML, "headers": {"X-Id": {"required": True, "schema": {"type": "string"}}}}}
    _, reply, findings = site.call(
        tmp_path, "/a", body("multipart/form-data", schema, encoding=encoding), {"x": "<x/>"}
    )
    assert b"content-type: application/xml\r\n\r\n<x/>\r\n" in site.seen[0].body
    assert reply["properties"]["x"] == {"type": "string", "contentMediaType": XML}
    assert "the part x is XML, which is one text here" in findings
    assert "the part x needs the header X-Id, which has no fixed value and is not sent" in findings


@pytest.mark.requirement("O-28")
def test_second_json_type_that_differs_by_a_parameter_is_a_finding(tmp_path: Path, site: Site) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    content = {"application/json; v=1": {"schema": schema}, "application/json; v=2": {"schema": schema}}
    operation = {"requestBody": {"required": True, "content": content}}
    (good,), _, findings = site.call(tmp_path, "/v", operation, {"a": "x"})
    assert isinstance(good, Value)
    assert site.seen[0].headers["content-type"] == "application/json; v=1"
    assert site.seen[0].body == b'{"a":"x"}'
    assert "its body is sent as application/json; v=1, never as application/json; v=2" in findings


@pytest.mark.requirement("O-29")
@pytest.mark.parametrize("others", [1, 8])
def test_optional_body_is_sent_whole_or_not_at_all(tmp_path: Path, site: Site, others: int) -> None:
    names = [f"p{number}" for number in range(others)]
    reply = {"description": "The sender.", "type": "string"}
    schema = {
        "type": "object", "required": ["to", "from"],
        "properties": {"to": {"type": "string"}, "from": reply, **{name: {"type": "string"} for name in names}},
    }  # fmt: skip
    operation = body("application/json", schema, required=False)
    operation["parameters"] = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("q", "r")]
    calls = ({"to": "x"}, {"to": "x", "p0": "y"}, {"q": "1", "r": "2"}, {"to": "x", "from": "y", "q": "1"}, {})
    results, shown, _ = site.call(tmp_path, "/s", operation, *calls)
    assert [one.ok for one in results] == [False, False, True, True, True]
    assert shown["properties"]["to"]["description"] == "Required if any argument of the body is given."
    assert shown["properties"]["from"]["description"] == "The sender. Required if any argument of the body is given."


@pytest.mark.requirement("O-32")
@pytest.mark.parametrize(
    ("path", "sent", "finding"),
    [
        ("/u/:id", None, "its path contains :id, which OpenAPI writes as {id}"),
        ("/q?action=x&v={v}", "/q?action=x&v=1%262", ""),
        ("/q?v={other}", None, "the query in its path contains v={other}"),
        ("/v1/things:run", "/v1/things:run?v=1%262", ""),
    ],
)
def test_place_that_openapi_does_not_have_makes_no_wrong_request(
    tmp_path: Path, site: Site, path: str, sent: str | None, finding: str
) -> None:
    operation = {"parameters": [{"name": "v", "in": "query", "schema": {"type": "string"}}]}
    _, _, findings = site.call(tmp_path, path, operation, {"v": "1&2"})
    assert [one.line.split()[1] for one in site.seen] == ([] if sent is None else [sent])
    assert finding in findings


@pytest.mark.requirement("O-32")
@pytest.mark.parametrize("pattern", ["/[a-z0-9-]+/", "/^[a-z0-9-]+$/i", "^[a-z0-9-[aeiou]]+$"])
def test_pattern_of_another_language_refuses_nothing(tmp_path: Path, site: Site, pattern: str) -> None:
    schema = {"type": "object", "properties": {"label": {"type": "string", "pattern": pattern}}}
    (good,), _, _ = site.call(tmp_path, "/p", body("application/json", schema), {"label": "wb-1"})
    assert isinstance(good, Value)


@pytest.mark.requirement("O-33")
@pytest.mark.parametrize("answer", [b'{"a":NaN}', b'{"a":"\\ud800"}', b'{"a":1e999}', b"{'a': 1}"])
def test_answer_that_is_no_json_is_not_lost(tmp_path: Path, listen: Any, encode_response: Any, answer: bytes) -> None:
    site = Site(listen, encode_response, answer)
    (result,), _, _ = site.call(tmp_path, "/order", {}, {})
    assert isinstance(result, Value)
    assert result.value == answer.decode()
    assert "not_json" in result.notes


FILE = {"type": "object", "properties": {"file": {"type": "string", "contentMediaType": "image/png"}}}


@pytest.mark.requirement("O-33", "O-38")
@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("data:image/png;base64,aGk=", "file.png"),
        ("data:image/png;name=cat.png;base64,aGk=", "cat.png"),
        ("data:image/png;name=%E5%A0%B1%E5%91%8A.pdf;base64,aGk=", "報告.pdf"),
        ("data:image/png;name=..%2F%22a%0D%0Ab%22.png;base64,aGk=", "a_b_.png"),
        ("aGk=", "file"),
    ],
)
@pytest.mark.parametrize("declared", ["", "image/*"])
def test_file_has_a_name_and_a_type(tmp_path: Path, site: Site, value: str, name: str, declared: str) -> None:
    encoding = {"encoding": {"file": {"contentType": declared}}} if declared else {}
    operation = body("multipart/form-data", FILE, **encoding)
    _, schema, _ = site.call(tmp_path, "/a", operation, {"file": value})
    kind = "image/png" if value.startswith("data:") else "application/octet-stream"
    head = f'content-disposition: form-data; name="file"; filename="{name}"\r\ncontent-type: {kind}\r\n'
    assert head.encode() in site.seen[0].body
    assert (
        "The file as base64 text, or a file handle. A data: URL also sets its type and name: "
        "data:image/png;name=cat.png;base64"
    ) in schema["properties"]["file"]["description"]


@pytest.mark.requirement("O-37")
@pytest.mark.parametrize("said", [{"enum": ["\n", "\r\n", "\r"]}, {"const": "\r"}, {"enum": ["a\u200bb"]}])
def test_value_that_cannot_be_shown_is_sent_as_it_is(tmp_path: Path, site: Site, said: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"newline": {"type": "string", **said}}, "required": ["newline"]}
    value = said["const"] if "const" in said else said["enum"][-1]
    (good,), shown, findings = site.call(tmp_path, "/export", body("application/json", schema), {"newline": value})
    assert isinstance(good, Value)
    assert json.loads(site.seen[0].body) == {"newline": value}
    assert not {"enum", "const"} & shown["properties"]["newline"].keys()
    assert "has characters that cannot be shown, and any value is taken" in findings
