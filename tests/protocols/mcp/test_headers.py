"""Values in headers: safe whatever the text, and only those that a schema asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.protocols.mcp import header_arguments, headers


@given(st.text())
def test_any_text_is_a_legal_header_value_and_reads_back(text):
    value = headers.write(text)
    assert all(0x20 <= byte <= 0x7E for byte in value)
    assert value == value.strip()
    assert headers.read(value.decode("ascii")) == text.encode("utf-8", "replace").decode()


@pytest.mark.parametrize("value", ["=?base64?*?=", "=?base64?/w==?="])
def test_a_broken_base64_value_is_no_text(value):
    assert headers.read(value) is None


def test_marked_scalars_are_mirrored_and_nothing_else():
    schema = {
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "ratio": {"type": "number", "x-mcp-header": "Ratio"},
            "list": {"type": "array", "items": {"type": "string", "x-mcp-header": "Item"}},
            "evil": {"type": "string", "x-mcp-header": "a\r\nb"},
            "plain": {"type": "string"},
            "any": True,
        }
    }
    fields = header_arguments.find_mirrored(schema)
    arguments = {"region": "grün", "deep": {"on": True}, "count": None, "ratio": 1.5, "list": ["x"], "evil": "x"}
    assert headers.write_mirrored(fields, arguments) == [
        (b"mcp-param-region", b"=?base64?Z3LDvG4=?="),
        (b"mcp-param-on", b"true"),
    ]


def test_a_schema_without_end_is_walked_to_a_limit():
    schema: dict = {"type": "string", "x-mcp-header": "Deep"}
    for _ in range(100):
        schema = {"properties": {"in": schema}}
    assert header_arguments.find_mirrored(schema) == ()
