"""Any catalog: tools of every sort, with schemas that no protocol but our own says whole."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Authorization, Cost, RateLimit, Requirements, Tool

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)
VERSIONS = st.from_regex(r"[0-3]\.[0-2]\.[0-2]", fullmatch=True)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT)


def _wider(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("array")}, optional={"items": inner, "maxItems": st.integers(0, 9)}),
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
            optional={"additionalProperties": st.one_of(st.booleans(), inner), "description": TEXT},
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}, optional={"title": TEXT}),
    )


SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.one_of(
        st.just({}),
        st.fixed_dictionaries(
            {"type": st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])},
            optional={"description": TEXT, "default": VALUES, "format": TEXT, "minimum": st.integers()},
        ),
        st.fixed_dictionaries({"enum": st.lists(VALUES, min_size=1, max_size=3)}),
        st.just({"$ref": "#/$defs/Thing"}),
        st.just({"type": ["string", "null"]}),
    ),
    _wider,
    max_leaves=5,
)


@st.composite
def inputs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what a tool can take: an object with known arguments, some of them needed."""
    properties: dict[str, Any] = draw(st.dictionaries(NAMES, SCHEMAS, max_size=3))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if properties and draw(st.booleans()):
        schema["required"] = draw(st.lists(st.sampled_from(sorted(properties)), min_size=1, unique=True))
    if draw(st.booleans()):
        schema["$defs"] = {"Thing": draw(SCHEMAS)}
    if draw(st.booleans()):
        schema["additionalProperties"] = False
    return schema


REQUIREMENTS = st.builds(
    Requirements,
    authorization=st.lists(st.builds(Authorization, id=NAMES, scopes=st.tuples(NAMES)), max_size=2).map(tuple),
    secrets=st.lists(NAMES, max_size=2).map(tuple),
    user_id=st.booleans(),
)
TOOLS = st.builds(
    Tool,
    name=NAMES,
    description=TEXT,
    toolkit=st.from_regex(r"[A-Za-z0-9_]{0,4}", fullmatch=True),
    version=VERSIONS,
    input_schema=inputs(),
    output_schema=st.none() | SCHEMAS,
    output_name=st.just("result") | NAMES,
    safe=st.booleans(),
    approval=st.none() | st.sampled_from(Approval),
    blanket_allowed=st.booleans(),
    destructive=st.booleans(),
    idempotent=st.booleans(),
    hint=st.just("") | TEXT,
    cost=st.none() | st.sampled_from(Cost),
    rate_limit=st.none() | st.builds(RateLimit, max=st.integers(1, 9), window=st.sampled_from(["1s", "5m"])),
    scopes=st.lists(NAMES, max_size=2).map(tuple),
    requirements=st.just(Requirements()) | REQUIREMENTS,
    timeout_s=st.none() | st.floats(0.1, 100),
    streams=st.booleans(),
    reports=st.booleans(),
    deprecated=st.booleans(),
    hints=st.just({}) | st.dictionaries(NAMES, VALUES, max_size=2),
)


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    """Draw a catalog whose tools can stand in one."""
    tools = draw(st.lists(TOOLS, max_size=4, unique_by=lambda tool: (tool.id, tool.name.replace("-", "_"))))
    about = {"title": draw(TEXT), "version": draw(VERSIONS | TEXT), "description": draw(TEXT)}
    try:
        return Catalog(**about, tools=tuple(tools))
    except ValueError:  # two names that meet
        return Catalog(**about, tools=tuple(tools[:1]))


def text_of(document: Any) -> str:
    """Return ``document`` as a file has it."""
    return json.dumps(document, ensure_ascii=False, indent=2)
