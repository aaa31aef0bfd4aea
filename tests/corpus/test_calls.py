"""Calls as vendors' guides show them, on short excerpts of our own; ``make test-corpus`` has the real documents."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from corpus.calls import Guided, judge_all, judge_call  # noqa: E402 - the folder is beside the package, not in it
from corpus.guides import CALLS  # noqa: E402 - likewise

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
FORM = "application/x-www-form-urlencoded"

pytestmark = pytest.mark.requirement("XL-084", "CV-11", "CV-15")


def thing(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def many(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def document(
    path: str, method: str, schema: Any, *parameters: Any, kinds: tuple[str, ...] = ("application/json",), **more: Any
) -> dict[str, Any]:
    """Return a document of one operation with a body."""
    encoding = more.pop("encoding", {})
    content = {kind: {"schema": schema, "encoding": encoding} for kind in kinds}
    operation: dict[str, Any] = {"parameters": list(parameters), "responses": {"200": {"description": "ok"}}}
    if schema is not None:
        operation["requestBody"] = {"content": content, "required": method != "delete"}
    info = {"openapi": more.pop("version", "3.1.0"), "info": {"title": "T", "version": "1"}, "components": more}
    return {**info, "servers": [{"url": "https://api.test"}], "paths": {path: {method: operation}}}


def at(name: str, place: str, schema: Any = TEXT, **members: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema, "required": place == "path", **members}


def build_guided(method: str, path: str, arguments: Any, sent: str, **more: Any) -> Guided:
    return Guided(document="", method=method, path=path, arguments=arguments, sent=sent, **more)


EMBED = thing(title=TEXT, color=NUMBER, fields=many(thing("name", "value", name=TEXT, value=TEXT)))
OPTION = thing("label", "value", label=TEXT, value=TEXT)
BUTTON = thing("type", type={"const": 2}, style={"enum": [1, 2]}, label=TEXT, custom_id=TEXT)
SELECT = thing("type", type={"const": 3}, custom_id=TEXT, options=many(OPTION))
ROW = thing("type", type={"const": 1}, components=many({"oneOf": [BUTTON, SELECT]}))
MESSAGE = thing(content=TEXT, embeds=many(EMBED), components=many(ROW), allowed_mentions=thing(parse=many(TEXT)))
SAID = {
    "content": "Hi",
    "embeds": [{"title": "T", "fields": [{"name": "a", "value": "b"}]}],
    "components": [
        {"type": 1, "components": [{"type": 2, "style": 1, "label": "Go", "custom_id": "go"}]},
        {"type": 1, "components": [{"type": 3, "custom_id": "s", "options": [{"label": "A", "value": "a"}]}]},
    ],
    "allowed_mentions": {"parse": []},
}
PART = {
    "oneOf": [
        thing("type", "text", type={"const": "input_text"}, text=TEXT),
        thing("type", "image_url", type={"const": "input_image"}, image_url=TEXT),
    ]
}
INPUT = thing("role", "content", role={"enum": ["user", "developer"]}, content={"oneOf": [TEXT, many(PART)]})
FUNCTION = thing("type", "name", type={"const": "function"}, name=TEXT, parameters={"type": "object"})
SEARCH = thing("type", type={"const": "web_search"}, search_context_size={"enum": ["low", "high"]})
RESPONSE = thing(
    "model",
    model=TEXT,
    input={"oneOf": [TEXT, many({"$ref": "#/components/schemas/Input"})]},
    tools=many({"anyOf": [FUNCTION, SEARCH]}),
    text=thing(
        format={
            "oneOf": [
                thing(type={"const": "text"}),
                thing(type={"const": "json_schema"}, name=TEXT, schema={"type": "object"}),
            ]
        }
    ),
)
ANSWER = {
    "model": "m",
    "input": [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is it?"},
                {"type": "input_image", "image_url": "https://a/b"},
            ],
        },
    ],
    "tools": [
        {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}},
        {"type": "web_search", "search_context_size": "low"},
    ],
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
}
QUERY = {"bool": {"must": [{"match": {"title": "soup"}}], "filter": [{"term": {"done": False}}]}}
SEARCHED = {"query": QUERY, "sort": [{"at": "desc"}, "_score"], "aggs": {"by": {"terms": {"field": "tag"}}}, "size": 5}
LOOK = thing(
    query={
        "type": "object",
        "description": "Query DSL: bool with must and filter, match, term.",
        "additionalProperties": True,
    },
    sort=many({"oneOf": [TEXT, {"type": "object", "additionalProperties": {"enum": ["asc", "desc"]}}]}),
    aggs={"type": "object", "additionalProperties": {"type": "object"}},
    size=NUMBER,
)
RICH = thing(rich_text=many(thing(text=thing("content", content=TEXT))))
BLOCK = thing(
    "type", object={"const": "block"}, type={"enum": ["paragraph", "heading_1"]}, paragraph=RICH, heading_1=RICH
)
PAGE = thing(
    "parent",
    parent=thing(database_id=TEXT),
    properties={"type": "object", "additionalProperties": True},
    children=many(BLOCK),
)
PAGED = {
    "parent": {"database_id": "d"},
    "properties": {"Name": {"title": [{"text": {"content": "T"}}]}},
    "children": [{"object": "block", "type": "paragraph", "paragraph": {"rich_text": [{"text": {"content": "Hi"}}]}}],
}
DNS = {
    "discriminator": {"propertyName": "type"},
    "oneOf": [
        thing(
            "type",
            "name",
            "content",
            type={"enum": ["A"]},
            name=TEXT,
            content=TEXT,
            ttl=NUMBER,
            proxied={"type": "boolean"},
        ),
        thing("type", "name", "content", type={"enum": ["MX"]}, name=TEXT, content=TEXT, priority=NUMBER),
    ],
}
RECORD = {"type": "A", "name": "www", "content": "192.0.2.1", "ttl": 3600, "proxied": True}
PATCHES = tuple(f"application/{kind}+json" for kind in ("json-patch", "merge-patch", "strategic-merge-patch"))
PORT = {"type": "string", "format": "int-or-string"}

SHORT: dict[str, tuple[dict[str, Any], Guided]] = {
    "a chat message with embeds and components": (
        document("/channels/{id}/messages", "post", MESSAGE, at("id", "path")),
        build_guided("POST", "/channels/{id}/messages", {"id": "1", **SAID}, "/channels/1/messages", body=SAID),
    ),
    "a chat message with a file": (
        document(
            "/channels/{id}/messages",
            "post",
            thing(payload_json=MESSAGE, **{"files[0]": {"type": "string", "format": "binary"}}),
            at("id", "path"),
            kinds=("multipart/form-data",),
            encoding={
                "payload_json": {"contentType": "application/json; charset=utf-8"},
                "files[0]": {"contentType": "image/png"},
            },
            version="3.0.3",
        ),
        build_guided(
            "POST",
            "/channels/{id}/messages",
            {"id": "1", "payload_json": {"content": "Hi"}, "files_0": "aGk="},
            "/channels/1/messages",
            media_type="multipart/form-data",
            parts=[("payload_json", '{"content":"Hi"}'), ("files[0]", "hi")],
        ),
    ),
    "a model's response with tools, an image and a format": (
        document("/responses", "post", RESPONSE, schemas={"Input": INPUT}),
        build_guided(
            "POST",
            "/responses",
            ANSWER,
            "/responses",
            body=ANSWER,
            seen=("input_image", "input_text", "web_search", "function", "json_schema", "low", "developer"),
            free=frozenset(("schema", "parameters")),
        ),
    ),
    "a search with a query, a sort and aggregations": (
        document("/{index}/_search", "post", LOOK, at("index", "path")),
        build_guided(
            "POST",
            "/{index}/_search",
            {"index": "a", **SEARCHED},
            "/a/_search",
            body=SEARCHED,
            seen=("bool", "must", "match", "term", "desc"),
            free=frozenset(("query", "sort", "aggs")),
        ),
    ),
    "a page with blocks": (
        document("/v1/pages", "post", PAGE, at("Notion-Version", "header")),
        build_guided(
            "POST",
            "/v1/pages",
            {"Notion-Version": "2022-06-28", **PAGED},
            "/v1/pages",
            headers={"notion-version": "2022-06-28"},
            body=PAGED,
            seen=("paragraph", "block"),
            free=frozenset(("properties",)),
        ),
    ),
    "a record of a zone": (
        document("/zones/{zone_id}/dns_records", "post", DNS, at("zone_id", "path")),
        build_guided(
            "POST",
            "/zones/{zone_id}/dns_records",
            {"zone_id": "z", "body": RECORD},
            "/zones/z/dns_records",
            body=RECORD,
            seen=("MX", "A"),
        ),
    ),
    "a strategic merge patch": (
        document(
            "/deployments/{name}", "patch", {"type": "object"}, at("name", "path"), kinds=PATCHES, version="3.0.0"
        ),
        build_guided(
            "PATCH",
            "/deployments/{name}",
            {"name": "web", "body": {"spec": {"replicas": 3}}},
            "/deployments/web",
            media_type="application/strategic-merge-patch+json",
            body={"spec": {"replicas": 3}},
            free=frozenset(("body",)),
        ),
    ),
    "a port that is a number or a name": (
        document("/probes", "post", thing(port=PORT, other={**PORT, "nullable": True}), version="3.0.0"),
        build_guided("POST", "/probes", {"port": 80, "other": "http"}, "/probes", body={"port": 80, "other": "http"}),
    ),
    "addresses to delete, a list as the body": (
        document(
            "/user/emails", "delete", {"oneOf": [thing("emails", emails=many(TEXT)), many(TEXT)]}, version="3.0.3"
        ),
        build_guided("DELETE", "/user/emails", {"body": ["a@b"]}, "/user/emails", body=["a@b"]),
    ),
    "a list after a date": (
        document("/Messages.json", "get", None, *(at(f"DateSent{sign}", "query") for sign in ("", "<", ">"))),
        build_guided(
            "GET",
            "/Messages.json",
            {"DateSent": "a", "DateSent_lt": "b", "DateSent_gt": "c"},
            "/Messages.json",
            query=[("DateSent", "a"), ("DateSent<", "b"), ("DateSent>", "c")],
            seen=("DateSent>", "DateSent<"),
        ),
    ),
    "a payment in a form of nested fields": (
        document(
            "/v1/payment_intents",
            "post",
            thing(
                "amount", amount=NUMBER, expand=many(TEXT), metadata={"type": "object", "additionalProperties": TEXT}
            ),
            kinds=(FORM,),
            encoding={name: {"style": "deepObject", "explode": True} for name in ("expand", "metadata")},
            version="3.0.0",
        ),
        build_guided(
            "POST",
            "/v1/payment_intents",
            {"amount": 2, "expand": ["customer"], "metadata": {"order": "1"}},
            "/v1/payment_intents",
            media_type=FORM,
            body=[("amount", "2"), ("expand[0]", "customer"), ("metadata[order]", "1")],
        ),
    ),
}


@pytest.mark.requirement("O-10")
@pytest.mark.parametrize("name", SHORT)
def test_call_is_accepted_sent_as_in_its_guide_and_visible(name: str) -> None:
    written, call = SHORT[name]
    assert list(judge_call(call, written)) == []


def test_fault_in_a_guided_call_is_found() -> None:
    written, call = SHORT["a port that is a number or a name"]
    words = list(
        judge_call(Guided(**{**vars_of(call), "body": {"port": "80"}, "sent": "/no", "seen": ("tcp",)}), written)
    )
    assert [word.partition(" is ")[0] for word in words] == [
        "a model does not see the value 'tcp'",
        "its path",
        "its body",
    ]
    unknown = Guided(**{**vars_of(call), "arguments": {"porte": 1}})
    words = list(judge_call(unknown, written))
    assert words[0] == "a model does not see the name 'porte'"
    assert list(judge_call(Guided(**{**vars_of(call), "path": "/gone"}), written)) == ["its operation is no tool"]


def vars_of(call: Guided) -> dict[str, Any]:
    return {name: getattr(call, name) for name in call.__dataclass_fields__}


def test_missing_document_is_reported(tmp_path: Path) -> None:
    assert {found is None for _, found in judge_all(tmp_path, CALLS)} == {True}
    written, call = SHORT["a port that is a number or a name"]
    (tmp_path / "a.json").write_text(json.dumps(written))
    (found,) = judge_all(tmp_path, (Guided(**{**vars_of(call), "document": "a.json"}),))
    assert found[1] == []
