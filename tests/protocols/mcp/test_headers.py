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
def test_invalid_base64_header_value_is_refused(value):
    assert headers.read(value) is None


def test_only_marked_scalar_arguments_are_mirrored_in_headers():
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


def test_search_for_header_marks_has_a_depth_limit():
    schema: dict = {"type": "string", "x-mcp-header": "Deep"}
    for _ in range(100):
        schema = {"properties": {"in": schema}}
    assert header_arguments.find_mirrored(schema) == ()


FIELDS = header_arguments.find_mirrored(
    {
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "deep": {"properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
        }
    }
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text()


@given(
    st.fixed_dictionaries(
        {}, optional={"region": SCALARS, "count": SCALARS, "deep": st.dictionaries(st.just("on"), SCALARS)}
    )
)
def test_what_a_client_writes_never_is_a_mismatch(arguments):
    written = headers.write_mirrored(FIELDS, arguments)
    assert headers.find_mismatch(FIELDS, arguments, [(b"accept", b"*/*"), *written]) == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"region": "north"}, [b" north\t"]),
        ({"region": "north"}, [b"=?base64?bm9ydGg=?="]),
        ({"region": "bm9ydGg="}, [b"bm9ydGg="]),
        ({"region": "=?base64?bm9ydGg="}, [b"=?base64?bm9ydGg="]),
        ({"region": ""}, [b""]),
        ({"region": None}, []),
        ({"region": ["north"]}, []),  # the check of the arguments refuses it
        ({}, []),
    ],
)
def test_a_header_that_says_what_the_argument_says_is_no_mismatch(arguments, said):
    assert headers.find_mismatch(FIELDS, arguments, [(b"mcp-param-region", value) for value in said]) == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"region": "north"}, []),
        ({"region": "north"}, [b"south"]),
        ({"region": "north"}, [b"North"]),
        ({"region": "north"}, [b"north", b"north"]),
        ({"region": "north"}, [b"north", b"south"]),
        ({"region": "north"}, [b"=?base64?bm9ydGg?="]),
        ({"region": "north"}, [b"=?base64?bm9!ydGg=?="]),
        ({"region": "gr\u00fcn"}, ["gr\u00fcn".encode("latin-1")]),
        ({"region": "gr\u00fcn"}, ["gr\u00fcn".encode()]),
        ({"region": "a\x7f"}, [b"a\x7f"]),
        ({"region": "42"}, [b"42.0"]),
        ({"region": True}, [b"True"]),
        ({"region": None}, [b"north"]),
        ({"region": None}, [b""]),
        ({}, [b"north"]),
        ({"region": ["north"]}, [b"north"]),
    ],
)
def test_a_header_that_says_anything_else_is_one(arguments, said):
    found = headers.find_mismatch(FIELDS, arguments, [(b"mcp-param-region", value) for value in said])
    assert found == "mcp-param-region"


@pytest.mark.parametrize(
    ("value", "said", "fits"),
    [
        (42, b"42", True),
        (42, b"42.0", True),
        (42.0, b"42", True),
        (-7, b"-7", True),
        (-7, b"-7.00", True),
        (42, b"43", False),
        (42, b"42.5", False),
        (42, b"0x2a", False),
        (42, b"", False),
        (42.5, b"42.5", True),
        (42.5, b"42", False),
        (True, b"1", False),
        (True, b"true", True),
        (10**19, b"9" * 30, False),
    ],
)
def test_an_integer_is_compared_as_a_number(value, said, fits):
    found = headers.find_mismatch(FIELDS, {"count": value}, [(b"mcp-param-count", said)])
    assert found == ("" if fits else "mcp-param-count")
