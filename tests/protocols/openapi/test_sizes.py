"""What is too large for a model: schemas that are cut, data that is shortened, and garbage that waits its turn."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.core.codec import Peer
from toolwire.core.http import Response
from toolwire.core.interpreter import pause_collection
from toolwire.core.model import Tool, Value
from toolwire.core.resources import Resources, ResultLimits
from toolwire.framing import jsontext, truncate_json
from toolwire.protocols.openapi.response import results
from toolwire.protocols.openapi.response.results import Expected
from toolwire.validation import compile_schema

Read = Callable[..., Peer]
One = Callable[..., dict[str, Any]]


def tool(peer: Peer) -> Tool:
    (only,) = peer.catalog.tools
    return only


def _to(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.requirement("XL-012", "D-17", "CV-25")
def test_tool_with_too_many_arguments_keeps_their_names_and_types(peer: Read, one: One) -> None:
    parameters = [
        {"name": f"p{number}", "in": "query", "required": number == 0, "description": "word " * 200,
         "schema": {"type": "integer"}}
        for number in range(200)
    ]  # fmt: skip
    schema = tool(peer(one(parameters=parameters))).input_schema
    assert len(jsontext.write(dict(schema))) < 32 * 1024
    assert schema["properties"] == {f"p{number}": {"type": "integer"} for number in range(200)}
    validate = compile_schema(schema)
    assert validate({"p0": 1}) is None
    assert validate({}) is not None
    assert validate({"p0": "text"}) is not None


@pytest.mark.requirement("XL-012", "D-17", "CV-25")
def test_cut_schema_stays_closed(peer: Read, one: One) -> None:
    closed = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    wide = {"properties": {f"p{n}": {"type": "array", "items": {"description": "w" * 250}} for n in range(150)}}
    parameters = [{"name": name, "in": "query", "schema": each} for name, each in (("c", closed), ("w", wide))]
    schema = tool(peer(one(parameters=parameters))).input_schema
    assert len(jsontext.write(dict(schema))) < 32 * 1024
    validate = compile_schema(schema)
    assert validate({"c": {"a": "x"}, "w": {"p1": [1]}}) is None
    assert validate({"c": {"b": "x"}}) is not None


TALK = "We like it a lot and think that all of you will like it too" + " and so on" * 80 + "."
AT_LENGTH = f"How many there are. {TALK} It must be a whole number, and the default is `100`."
BRIEF = "How many there are. It must be a whole number, and the default is `100`.\u2026"


@pytest.mark.requirement("CV-25", "O-10")
@pytest.mark.parametrize("required", [False, True])
def test_large_tool_keeps_rules_and_drops_long_talk_in_descriptions(peer: Read, one: One, required: bool) -> None:
    schema = {"type": "object", "properties": {"in": {"type": "string", "description": AT_LENGTH}}}
    parameters = [
        {"name": "n", "in": "query", "required": required, "description": AT_LENGTH, "schema": {"type": "integer"}},
        *({"name": f"o{number}", "in": "query", "description": AT_LENGTH, "schema": _to("O")} for number in range(9)),
    ]
    found = tool(peer({**one(parameters=parameters), "components": {"schemas": {"O": schema}}})).input_schema
    assert found["properties"]["n"]["description"] == (AT_LENGTH if required else BRIEF)
    assert found["properties"]["o1"]["description"] == BRIEF
    assert found["$defs"]["O"]["properties"]["in"]["description"] == BRIEF


@pytest.mark.requirement("CV-25")
def test_schema_shared_by_two_large_tools_is_cut_equally(peer: Read, one: One) -> None:
    texts = {f"t{number}": {"type": "string", "description": AT_LENGTH} for number in range(9)}
    document = one(parameters=[{"name": "o", "in": "query", "schema": _to("O")}])
    ((path, item),) = document["paths"].items()
    again = {method: {**node, "operationId": "another"} for method, node in item.items()}
    shared = {"components": {"schemas": {"O": {"type": "object", "properties": texts}}}}
    found = peer({**document, **shared, "paths": {path: item, f"{path}/more": again}})
    first, second = (tool.input_schema["$defs"]["O"] for tool in found.catalog.tools)
    assert first == second
    assert first["properties"]["t3"]["description"] == BRIEF


@pytest.mark.requirement("CV-25")
def test_small_tool_keeps_its_full_descriptions(peer: Read, one: One) -> None:
    parameters = [{"name": "n", "in": "query", "description": AT_LENGTH, "schema": {"type": "integer"}}]
    assert tool(peer(one(parameters=parameters))).input_schema["properties"]["n"]["description"] == AT_LENGTH


@pytest.mark.requirement("CV-20")
@pytest.mark.parametrize(("type_", "kept"), [("string", False), ("array", True), (None, True)])
def test_unique_items_is_kept_only_on_schemas_with_items(peer: Read, one: One, type_: str | None, kept: bool) -> None:
    schema = {"uniqueItems": True, **({"type": type_} if type_ else {})}
    parameters = [{"name": "n", "in": "query", "schema": schema}]
    assert ("uniqueItems" in tool(peer(one(parameters=parameters))).input_schema["properties"]["n"]) is kept


def find_referenced_definitions(schema: Any) -> set[str]:
    """Return the names of the definitions that anything in ``schema`` refers to."""
    return set(re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(schema)))


@pytest.mark.requirement("XL-012", "D-17", "CV-18", "CV-25")
def test_schema_with_many_cut_definitions_fits_without_dangling_references(peer: Read, one: One) -> None:
    names = [f"Definition{number:03}{'x' * 50}" for number in range(250)]
    texts = {f"p{n}": {"type": "string", "description": "w" * 20} for n in range(40)}
    schemas = {name: {"type": "object", "properties": {**texts, "again": _to(name)}} for name in names}
    inside = {"type": "object", "properties": {f"a{number}": _to(name) for number, name in enumerate(names)}}
    parameters = [{"name": "all", "in": "query", "schema": inside}]
    found = peer({**one(parameters=parameters), "components": {"schemas": schemas}})
    schema = dict(tool(found).input_schema)
    assert len(jsontext.write(schema)) < 32 * 1024
    assert find_referenced_definitions(schema) == schema["$defs"].keys()
    assert "definitions are cut" in "\n".join(found.memo.findings)
    validate = compile_schema(schema)
    assert validate({"all": {"a0": {"p0": "text", "again": {"p0": "text"}}, "a249": {"p0": 7}}}) is None
    assert validate({"all": {"a0": {"p0": 7}}}) is not None
    assert validate({"all": {"a0": {"again": {"p0": 7}}}}) is not None


@pytest.mark.requirement("XL-012", "D-17", "CV-18", "CV-25")
def test_definition_referenced_only_from_a_cut_part_is_dropped(peer: Read, one: One) -> None:
    deep: dict[str, Any] = _to("Deep")
    for number in range(14):
        more = {f"more{n}": {"description": f"{number} " * 500} for n in range(6)}
        deep = {"type": "object", "properties": {"in": deep, **more}}
    wide = {f"w{number}": {"type": "string", "description": "d" * 1_000} for number in range(50)}
    inside = {"type": "object", "properties": {"deep": deep, "near": _to("Near"), **wide}}
    schemas = {"Deep": {"type": "integer"}, "Near": {"type": "integer"}}
    parameters = [{"name": "all", "in": "query", "schema": inside}]
    schema = dict(tool(peer({**one(parameters=parameters), "components": {"schemas": schemas}})).input_schema)
    assert len(jsontext.write(schema)) < 32 * 1024
    assert find_referenced_definitions(schema) == schema["$defs"].keys() == {"Near"}


@pytest.mark.requirement("XL-012", "D-17", "CV-25")
def test_result_enum_with_too_many_values_becomes_its_type(peer: Read, one: One) -> None:
    schema = {
        "type": "string",
        "description": "A place.",
        "enum": [f"place number {number}" for number in range(4_000)],
    }
    reply = {"200": {"content": {"application/json": {"schema": schema}}}}
    assert tool(peer(one(responses=reply))).output_schema == {"type": "string"}


@pytest.mark.requirement("XL-103")
def test_truncation_keeps_a_number_whole_or_drops_it() -> None:
    large = 10**50
    assert truncate_json.truncate([large], 60) == [large]
    assert truncate_json.truncate([large], 40) == [large]
    assert truncate_json.truncate([large], 30) == []
    assert truncate_json.truncate({"n": large, "t": "x" * 90}, 120) == {"n": large, "t": "x" * 52 + "..."}


@pytest.mark.requirement("XL-100", "XL-103")
def test_data_above_the_resource_limit_is_described_without_a_handle() -> None:
    small = Expected(resources=Resources(b"salt", most_bytes=10), caps=ResultLimits(bytes=5))
    for media_type in (b"image/png", b"text/plain"):
        result = results.read(Response(200, ((b"content-type", media_type),), b"x" * 11), small)
        assert isinstance(result, Value)
        reply = result.value if isinstance(result.value, dict) else dict(result.notes or {})
        assert "resource" not in reply
        assert 11 in (reply.get("bytes_len"), reply.get("total_bytes"))


@pytest.fixture
def restore_collection() -> Any:
    """Leaves garbage collection as it was. What the run of the tests froze is not frozen meanwhile."""
    before, is_frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.unfreeze()
    yield
    if is_frozen:
        gc.freeze()
    if before:
        gc.enable()
    else:
        gc.disable()


def test_pause_collection_keeps_disabled_garbage_collection_disabled(restore_collection: None) -> None:
    gc.disable()
    with pause_collection():
        assert not gc.isenabled()
    assert not gc.isenabled()
    gc.enable()
    with pause_collection(), pause_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.parametrize(("objects", "collections"), [(50_000, 0), (5_000, 1)])
def test_pause_collection_delays_collection_of_many_new_objects(
    restore_collection: None, objects: int, collections: int
) -> None:
    seen: list[str] = []

    def see(phase: str, _: dict[str, int]) -> None:
        seen.append(phase)

    gc.enable()
    with pause_collection():
        made = [[number] for number in range(objects)]
        gc.callbacks.append(see)
    try:
        made += [[number] for number in range(50)]
    finally:
        gc.callbacks.remove(see)
    assert seen.count("start") == collections


def test_pause_collection_keeps_objects_that_the_program_froze(restore_collection: None) -> None:
    gc.enable()
    gc.freeze()
    try:
        with pause_collection():
            made = [[number] for number in range(50_000)]
        assert gc.get_freeze_count() > 0
        assert len(made) == 50_000
    finally:
        gc.unfreeze()


def _wide(**properties: Any) -> dict[str, Any]:
    """Return an object of many properties without meaning, and ``properties``."""
    padding = {f"padding{number}{'x' * 30}": {"type": "string"} for number in range(20)}
    return {"type": "object", "properties": {**properties, **padding}}


def _text(description: str = "") -> dict[str, Any]:
    return {"type": "string", **({"description": description} if description else {})}


def _build_document(body: Any, schemas: dict[str, Any], **media: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": body, **media}}
    operation = {"operationId": "a", "x-llm": {}, "requestBody": {"required": True, "content": content}}
    return {
        "openapi": "3.0.3",
        "info": {"title": "T"},
        "paths": {"/a": {"post": operation}},
        "components": {"schemas": schemas},
    }


def _cut_in(schema: Any) -> set[str]:
    return {name for name, one in schema["$defs"].items() if one == {"description": "Cut short."}}


@pytest.mark.requirement("CV-25", "O-10")
def test_cutting_removes_reported_fields_before_fields_a_call_needs(peer: Read) -> None:
    conditions = {f"Condition{number}": _wide() for number in range(40)}
    reported = _wide(**{f"c{number}": _to(name) for number, name in enumerate(conditions)})
    schemas = {
        "deep.names.v1.Workload": _wide(spec=_to("deep.names.v1.Spec"), status=_to("deep.names.v1.Status")),
        "deep.names.v1.Status": reported,
        "Old": {**reported, "description": "Deprecated: use `spec`."},
        "deep.names.v1.Spec": {**_wide(template=_to("Template")), "required": ["template"]},
        "Template": _wide(containers={"type": "array", "items": _to("Container")}, volumes=_to("Volume")),
        "Container": {**_wide(env={"type": "array", "items": _to("EnvVar")}, probe=_to("Probe")), "required": ["env"]},
        "EnvVar": _wide(valueFrom=_to("EnvVarSource")),
        "EnvVarSource": _wide(secretKeyRef=_to("SecretKeySelector")),
        "SecretKeySelector": _wide(key=_text()),
        "Probe": _wide(),
        "Volume": _wide(),
        **conditions,
    }  # fmt: skip
    schemas["deep.names.v1.Workload"]["properties"]["old"] = {"allOf": [_to("Old")], "deprecated": True}
    schema = dict(tool(peer(_build_document(_to("deep.names.v1.Workload"), schemas))).input_schema)
    assert len(jsontext.write(schema)) < 32_000
    cut = _cut_in(schema)
    assert cut
    assert cut.isdisjoint({"Spec", "Template", "Container", "EnvVar", "EnvVarSource", "SecretKeySelector", "Probe"})
    assert cut <= {"Status", "Old", *conditions}


@pytest.mark.requirement("CV-25", "O-10")
@pytest.mark.parametrize("shown", [True, False])
def test_cutting_keeps_fields_used_by_an_example_longest(peer: Read, shown: bool) -> None:
    names = [f"Option{number:02}" for number in range(60)]
    schemas: dict[str, Any] = {name: _wide(inner=_to(f"{name}Inner")) for name in names}
    schemas |= {f"{name}Inner": _wide(value=_text()) for name in names}
    whole = {"type": "object", "properties": {name.lower(): _to(name) for name in names}}
    example = {"example": {"option57": {"inner": {"value": "x"}}}} if shown else {}
    listed = {"type": "array", "items": whole}
    schema = dict(
        tool(
            peer(_build_document(listed, schemas, **({"example": [example["example"]]} if shown else {})))
        ).input_schema
    )
    stored = schema.get("$defs", {}).keys() - _cut_in(schema)
    assert ({"Option57", "Option57Inner"} <= stored) is shown


@pytest.mark.requirement("CV-25", "O-10")
def test_cutting_drops_descriptions_before_parts(peer: Read) -> None:
    talk = "It is what it is, and we like it a lot, as you will too once you have seen how it does what it does. "
    schemas = {
        f"Part{n}": {"type": "object", "properties": {f"p{m}": _text(talk * 2) for m in range(4)}} for n in range(90)
    }
    whole = {"type": "object", "properties": {f"part{n}": _to(f"Part{n}") for n in range(90)}}
    schema = dict(tool(peer(_build_document({"type": "array", "items": whole}, schemas))).input_schema)
    assert len(jsontext.write(schema)) < 32_000
    assert schema["$defs"].keys() == schemas.keys()
    assert _cut_in(schema) == set()
    assert all(one["properties"]["p3"]["type"] == "string" for one in schema["$defs"].values())
