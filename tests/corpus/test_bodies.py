"""What a document accepts is tried with its tools: the check itself, on documents of our own."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corpus import bodies, documents, patterns
from corpus.meaning import Meaning, UndecidedPatternError
from toolwire.core.check import ALLOW
from toolwire.core.model import Call, Tool
from toolwire.core.selection import Selection
from toolwire.protocols.openapi.tools import operations
from toolwire.validation import build_arguments_check

ORDER = {
    "type": "object",
    "required": ["sku", "at"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "sku": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
        "at": {"type": "string", "format": "date-time"},
        "size": {"enum": ["s", "m"]},
        "note": {"type": "string", "nullable": True},
    },
}


def document(schema: Any = ORDER, version: str = "3.0.3", paths: int = 1, **media: Any) -> dict[str, Any]:
    posted = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}
    posted["content"]["application/json"] |= media
    number = {"name": "n", "in": "query", "required": True, "schema": {"type": "integer", "minimum": 3}}
    operation = {"parameters": [number], "requestBody": posted, "responses": {"204": {"description": "Done."}}}
    return {
        "openapi": version,
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://api.test"}],
        "paths": {f"/orders{one}": {"post": {**operation, "operationId": f"order{one}"}} for one in range(paths)},
        "components": {"schemas": {"Order": schema}},
    }


def try_document(whole: dict[str, Any], schema: Any = None) -> tuple[list[str], Counter[str]]:
    """Return what is said of the tools of a document, where ``schema`` is what they say they accept."""
    offer = operations.read_operations(whole, "https://api.test/openapi.json", Selection(include="all"))
    tools: tuple[Tool, ...] = offer.catalog.tools
    if schema is not None:
        tools = tuple(replace(one, input_schema=schema(dict(one.input_schema))) for one in tools)
    counts: Counter[str] = Counter()
    replies = list(bodies.judge_bodies(whole, tools, offer.memo.plans, "orders.json", counts))
    return replies + list(bodies.judge_reach(whole, tools, offer.memo, "orders.json", counts)), counts


@pytest.mark.requirement("CV-19", "CV-20", "CV-21", "CV-25")
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_accepted_document_gives_no_faults(version: str) -> None:
    reply, counts = try_document(document(version=version))
    assert reply == []
    assert counts["bodies tried"] >= 10  # made of the schema alone, with its pattern
    assert counts["parameters tried"] == bodies.PARAMETERS
    assert counts["bodies refused"] == counts["parameters refused"] == counts["unreachable"] == 0


@pytest.mark.parametrize(
    ("word", "what"),
    [
        (lambda schema: schema | {"required": [*schema["required"], "size"]}, "size is needed: s or m"),
        (lambda schema: with_property(schema, "size", {"enum": ["s"]}), "size"),
        (lambda schema: with_property(schema, "sku", {"type": "string", "maxLength": 6}), "sku"),
        (lambda schema: with_property(schema, "note", {"type": "string"}), "note"),
        (lambda schema: with_property(schema, "n", {"type": "integer", "minimum": 8}), "n"),
    ],
)
def test_tool_that_accepts_less_than_its_document_is_reported(word: Any, what: str) -> None:
    reply, counts = try_document(document(), word)
    assert len(reply) == 1
    assert reply[0].startswith("order0: its document accepts")
    assert what in reply[0].replace("'size': ", "")
    assert counts["bodies refused"] + counts["parameters refused"] > 0


def with_property(schema: dict[str, Any], name: str, node: Any) -> dict[str, Any]:
    return schema | {"properties": schema["properties"] | {name: node}}


def test_tool_that_accepts_nothing_is_reported_unless_a_finding_explains_it() -> None:
    def nothing(schema: dict[str, Any]) -> dict[str, Any]:
        return schema | {"not": {}}

    reply, counts = try_document(document(), nothing)
    assert "order0: no arguments are found that it accepts, and no finding says why" in reply
    assert counts["unreachable"] == counts["unreachable without a finding"] == 1
    message = document({**ORDER, "properties": {**ORDER["properties"], "more": {"type": "objekt"}}})
    reply, counts = try_document(message, nothing)
    assert not any("no finding says why" in one for one in reply)
    assert (counts["unreachable"], counts["unreachable without a finding"]) == (1, 0)


def test_example_counts_only_if_its_document_accepts_it() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "^(?=x)x{9}\\Z"}}}
    right, wrong = {"value": {"a": "x" * 9}}, {"value": {"a": "y"}}
    refusing = lambda one: with_property(one, "a", {"const": "never"})  # noqa: E731 - short, and used twice
    reply, _ = try_document(document(schema, examples={"right": right}), refusing)
    assert "x" * 9 in reply[0]
    reply, counts = try_document(document(schema, examples={"wrong": wrong}))
    assert reply == []
    assert counts["bodies refused"] == 0


def test_the_operations_of_a_large_document_are_a_sample_that_stays() -> None:
    whole = document(paths=bodies.OPERATIONS + 40)
    reply, counts = try_document(whole)
    assert reply == []
    assert counts["operations tried"] == bodies.OPERATIONS
    assert counts["bodies tried"] <= bodies.OPERATIONS * bodies.BODIES
    assert try_document(whole)[1] == counts


def test_swagger_is_judged_by_its_own_keywords() -> None:
    file = {"name": "file", "in": "formData", "type": "file"}
    size = {"name": "size", "in": "formData", "type": "string", "enum": ["s", "m"], "required": True}
    node = {"name": "body", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Order"}}
    done = {"204": {"description": "Done."}}
    form = {"consumes": ["multipart/form-data"], "parameters": [file, size], "responses": done, "operationId": "form"}
    whole = {
        "swagger": "2.0",
        "info": {"title": "T", "version": "1"},
        "host": "api.test",
        "schemes": ["https"],
        "paths": {"/a": {"post": form, "put": {"operationId": "put", "parameters": [node], "responses": done}}},
        "definitions": {"Order": ORDER},
    }
    reply, counts = try_document(whole)
    assert reply == []
    assert counts["operations tried"] == 2
    assert counts["bodies tried"] > 10
    reply, _ = try_document(whole, lambda one: with_property(one, "size", {"enum": ["s"]}))
    assert any(one.startswith("form: its document accepts") for one in reply)


KINDS: dict[str, Any] = {
    "Order": {
        "type": "object",
        "required": ["kind"],
        "discriminator": {"propertyName": "kind"},
        "properties": {"kind": {"type": "string", "enum": ["File", "Timer"]}},
    },
    "FileOrder": {
        "allOf": [{"$ref": "#/components/schemas/Order"}],
        "required": ["path"],
        "properties": {"path": {"type": "string"}},
        "x-ms-discriminator-value": "File",
    },
    "TimerOrder": {
        "allOf": [{"$ref": "#/components/schemas/Order"}],
        "required": ["every"],
        "properties": {"every": {"type": "integer"}},
        "x-ms-discriminator-value": "Timer",
    },
}


@pytest.mark.requirement("O-23")
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0", "2.0"])
def test_kind_that_a_body_names_is_the_one_that_it_must_be(version: str) -> None:
    whole = document(version=version)
    whole["components"]["schemas"] = KINDS
    if version == "2.0":
        body = {"name": "body", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Order"}}
        operation = {"operationId": "order", "parameters": [body], "responses": {"204": {"description": "Done."}}}
        parent = {**KINDS["Order"], "discriminator": "kind"}
        text = json.dumps({**KINDS, "Order": parent}).replace("#/components/schemas/", "#/definitions/")
        whole = {
            "swagger": "2.0",
            "info": whole["info"],
            "host": "api.test",
            "schemes": ["https"],
            "paths": {"/orders": {"post": operation}},
            "definitions": json.loads(text),
        }
    reply, counts = try_document(whole)
    assert reply == []
    assert counts["bodies tried"] >= 5
    # Other readers and ours: the schema that the tag names counts, and not that of the parent alone.
    place = "#/definitions/Order" if version == "2.0" else "#/components/schemas/Order"
    judge = Meaning(whole).validator({"$ref": place})
    offer = operations.read_operations(whole, "https://api.test/openapi.json", Selection(include="all"))
    check = build_arguments_check()
    [tool] = offer.catalog.tools
    arguments = {"n": 3} if version != "2.0" else {}
    for body, is_valid in (
        ({"kind": "File", "path": "a"}, True),
        ({"kind": "Timer", "every": 5}, True),
        ({"kind": "File"}, False),
        ({"kind": "Timer", "path": "a"}, False),
        ({"path": "a"}, False),
    ):
        assert judge.is_valid(body) is is_valid, body
        assert (check(Call(tool, {**arguments, **body})) is ALLOW) is is_valid, body


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        (r"^\p{L}[\p{L}\p{N}]*$", "a1", "1a"),
        (r"^[^\p{C}]+$", "a b", "a\x01"),
        (r"^\P{M}+$", "ab", ""),
        (r"^\p{M}$", None, "a"),
        (r"^(?<year>\d{4})$", "2026", "99"),
        (r"^\w\[\]$", "a[]", "[]"),
    ],
)
def test_a_pattern_of_ecma_262_is_read(pattern: str, right: str | None, wrong: str) -> None:
    assert patterns.matches(pattern, wrong) is False
    assert right is None or patterns.matches(pattern, right) is True


def test_pattern_without_a_python_equivalent_is_undecided() -> None:
    assert patterns.translate(r"\p{Script=Greek}") is None
    assert patterns.translate("(") is None
    assert patterns.matches(r"^\p{L}$", "é") is None
    meaning = Meaning(document({"type": "string", "pattern": r"^\p{L}$"}))
    judge = meaning.validator({"$ref": "#/components/schemas/Order"})
    assert judge.is_valid("a")
    with pytest.raises(UndecidedPatternError):
        judge.is_valid("é")


def test_documents_in_a_folder_are_found_by_their_first_words(tmp_path: Path) -> None:
    texts = {
        "a/one.json": '{"info": {}, "openapi": "3.1.0"}',
        "two.yaml": "info: {}\nopenapi: 3.0.1\n",
        "three.yml": "# text\nswagger: '2.0'\n",
        "four.json": '{"openapi": true}',
        "five.yaml": "about: openapi 3.0\n",
        "six.txt": "openapi: 3.0.1\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = documents.documents_in(tmp_path)
    assert [one.name for one in found] == ["one.json", "three.yml", "two.yaml"]
