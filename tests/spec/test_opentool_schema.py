"""The published JSON Schemas of OpenTool agree with the validator and with the objects, whatever the document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.model import Problem
from toolwire.framing import jsontext
from toolwire.protocols.opentool import objects
from toolwire.protocols.opentool.rules import examine
from toolwire.protocols.opentool.shapes import SHAPES

SPEC = Path(__file__).parents[2] / "spec" / "opentool"
EXAMPLES = SPEC / "examples"
INDEX: dict[str, dict[str, str]] = json.loads((EXAMPLES / "index.json").read_text(encoding="utf-8"))
VALID = sorted((EXAMPLES / "valid").glob("*.json"))
BETWEEN_OBJECTS = {
    "name_used_twice.json",
    "param_name_used_twice.json",
    "reference_to_nothing.json",
    "reference_to_itself.json",
}
SAMPLES = [json.loads(file.read_bytes()) for file in VALID if file.stem in ("full", "full_1_0_0", "stream")]
ODD = st.sampled_from(
    json.loads(r"""[
        null, true, false, 0, 1, 1.0, 1.5, -7, "", "a", "a\n", "é", "2", "1.0.0", "string", "integer", "array",
        "object", "null", "#/schemas/Book", "#/schemas/Book\n", "#/schemas/", "#/schemas/A/b", "file:///etc/passwd",
        [], {}, [null], [1], ["a"], [[]], [{}], {"type": "string"}, {"type": "array"}, {"type": "object"},
        {"type": "object", "properties": {}}, {"$ref": "#/schemas/Book"}, {"$ref": null},
        {"$ref": "#/schemas/A", "type": 1}, {"name": "a"}, {"name": "a", "schema": {"type": "string"}},
        {"name": "a", "schema": {"$ref": 1}, "required": true}
    ]""")
).map(deepcopy)
NAMES = st.sampled_from(sorted({name for shape in SHAPES.values() for name in shape} | {"x-other"}))


def spots(data: Any) -> Iterator[tuple[Any, Any]]:
    steps = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, value in steps:
        yield data, step
        yield from spots(value)


@st.composite
def draw_mutated_document(draw: st.DrawFn) -> Any:
    """A valid document with up to three members gone, added or replaced."""
    data = deepcopy(draw(st.sampled_from(SAMPLES)))
    for _ in range(draw(st.integers(1, 3))):
        found = list(spots(data))
        if not found:
            break
        parent, step = draw(st.sampled_from(found))
        edit = draw(st.sampled_from(["delete", "replace", "add"]))
        if edit == "replace":
            parent[step] = draw(ODD)
        elif edit == "delete":
            del parent[step]
        elif isinstance(parent, dict):
            parent[draw(NAMES)] = draw(ODD)
        else:
            parent.insert(0, draw(ODD))
    return data


def has_structural_error(data: Any) -> bool:
    return any(found.is_structural for found in examine(data).faults)


@pytest.mark.parametrize("version", ["1.1.0", "1.0.0"])
@pytest.mark.requirement("OT-031")
def test_schema_is_valid_and_self_contained_with_its_own_id(version: str) -> None:
    text = (SPEC / version / "opentool.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:toolwire:opentool:{version}"
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    references = [parent[step] for parent, step in spots(schema) if step == "$ref" and isinstance(parent[step], str)]
    assert references
    assert all(reference.startswith("#/$defs/") for reference in references)


@pytest.mark.requirement("OT-003")
def test_only_the_newer_version_knows_a_server(is_accepted: Callable[[Any], bool]) -> None:
    document = json.loads((EXAMPLES / "valid" / "full.json").read_bytes())
    assert is_accepted(document)
    assert not is_accepted(document | {"server": {}})
    assert is_accepted(document | {"opentool": "1.0.0", "server": {}})


@pytest.mark.parametrize("file", VALID, ids=lambda file: file.stem)
def test_the_schema_accepts_every_valid_example(file: Path, is_accepted: Callable[[Any], bool]) -> None:
    assert is_accepted(json.loads(file.read_bytes()))


@pytest.mark.parametrize("name", sorted(INDEX))
def test_schema_refuses_structural_faults(name: str, is_accepted: Callable[[Any], bool]) -> None:
    data = jsontext.read((EXAMPLES / "faulty" / name).read_bytes())
    if isinstance(data, Problem):
        assert INDEX[name]["rule"] == "OT-029"
        return
    due = INDEX[name]
    is_advice = (
        due["severity"] == "warning" and due["rule"] != "C-4"
    )  # nulls are tolerated, and no part of the standard
    passes = is_advice or due["rule"] == "D-16" or name in BETWEEN_OBJECTS
    assert is_accepted(data) is passes


@given(data=draw_mutated_document() | ODD)
@pytest.mark.requirement("D-18")
def test_schema_and_validator_refuse_the_same_documents(data: Any, is_accepted: Callable[[Any], bool]) -> None:
    assert is_accepted(data) is not has_structural_error(data)


@given(data=draw_mutated_document())
@pytest.mark.requirement("OT-029")
def test_document_accepted_by_the_validator_survives_a_round_trip(data: Any) -> None:
    document = objects.read(data)
    if not has_structural_error(data):
        assert isinstance(document, objects.OpenTool)
        assert objects.write(document) == data


@given(data=draw_mutated_document() | ODD)
@pytest.mark.requirement("A-04", "C-4")
def test_any_document_that_is_read_is_written_without_errors(data: Any, is_accepted: Callable[[Any], bool]) -> None:
    document = objects.read(data)
    if isinstance(document, Problem):
        assert has_structural_error(data)
    else:
        assert is_accepted(objects.write(document))


@pytest.mark.requirement("D-18")
def test_external_reference_is_refused_without_a_request(is_accepted: Callable[[Any], bool]) -> None:
    for name in ("reference_to_web.json", "reference_to_file.json", "reference_to_other_document.json"):
        assert not is_accepted(json.loads((EXAMPLES / "faulty" / name).read_bytes()))
