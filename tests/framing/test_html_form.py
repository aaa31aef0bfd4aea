"""A form of a schema: what it is filled with comes back as it was, and what cannot be read is said beside its field."""

from __future__ import annotations

import json
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from toolwire.framing.html_arguments import (
    build_form_fields,
    change_items,
    find_changed_item,
    has_lists,
    read_form,
    write_link_fields,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["text", "count", "line"],
    "properties": {
        "text": {"type": "string"},
        "note": {"type": "string", "maxLength": 2000},
        "count": {"type": "integer"},
        "price": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "kind": {"enum": ["a", "b", 3, True]},
        "gift": {"type": ["boolean", "null"], "default": False},
        "line": {"$ref": "#/$defs/Line"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "any": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "a/b~c": {"type": "string"},
    },
    "$defs": {
        "Line": {
            "type": "object",
            "required": ["sku"],
            "properties": {
                "sku": {"type": "string"},
                "qty": {"type": "integer"},
                "day": {"type": "string", "format": "date"},
            },
        }
    },
}
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1).filter(
    lambda text: text.strip("\n")
)
LINE = st.fixed_dictionaries({"sku": TEXT}, optional={"qty": st.integers()})
ARGUMENTS = st.fixed_dictionaries(
    {"text": TEXT, "count": st.integers(), "line": LINE},
    optional={
        "note": TEXT,
        "price": st.floats(allow_nan=False, allow_infinity=False),
        "kind": st.sampled_from(["a", "b", 3, True]),
        "gift": st.booleans(),
        "lines": st.lists(LINE, min_size=1, max_size=3),
        "tags": st.lists(TEXT, min_size=1, max_size=3),
        "any": st.integers(),
        "a/b~c": TEXT,
    },
)


class Fields(HTMLParser):
    """What a browser would send of a form, without its buttons."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.labels: set[str] = set()
        self.ids: list[str] = []
        self._select = self._area = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.labels |= {given["for"]} if "for" in given else set()
        if tag == "input":
            self.fields[given["name"]] = given.get("value", "")
        elif tag == "select":
            self._select = given["name"]
            self.fields[self._select] = ""
        elif tag == "option" and "selected" in given:
            self.fields[self._select] = given["value"]
        elif tag == "textarea":
            self._area = given["name"]
            self.fields[self._area] = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self.fields[self._area] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            # A browser drops the first line break of a textarea, and sends others as CRLF.
            self.fields[self._area] = self.fields[self._area].removeprefix("\n").replace("\n", "\r\n")
            self._area = ""


@pytest.mark.requirement("CO-01")
@given(ARGUMENTS)
def test_submitted_form_returns_the_arguments_that_filled_it(arguments: dict[str, Any]) -> None:
    arguments["text"] = arguments["text"].replace("\n", " ")
    form = Fields(build_form_fields(SCHEMA, arguments, {}))
    found = read_form(SCHEMA, form.fields)
    assert json.dumps(found, sort_keys=True) == json.dumps(arguments, sort_keys=True)


@pytest.mark.requirement("CO-01")
def test_empty_form_omits_optional_arguments() -> None:
    form = Fields(build_form_fields(SCHEMA, {}, {}))
    assert read_form(SCHEMA, form.fields) == {"text": "", "line": {"sku": ""}}
    assert has_lists(SCHEMA)
    assert not has_lists({"type": "object", "properties": {"a": {"type": "string"}}})
    inputs = {f"at{name}" for name in form.fields if not name.startswith("#")}
    assert inputs == form.labels
    assert len(form.ids) == len(set(form.ids))


@pytest.mark.requirement("CO-01")
def test_form_adds_and_removes_list_items_and_keeps_the_others() -> None:
    fields = Fields(build_form_fields(SCHEMA, {"tags": ["a", "b", "c"], "text": "x"}, {})).fields
    less = change_items({**fields, "remove": "/tags/1"})
    assert less is not None
    assert read_form(SCHEMA, less)["tags"] == ["a", "c"]
    more = change_items({**less, "add": "/tags"})
    assert more is not None
    assert read_form(SCHEMA, more)["tags"] == ["a", "c", ""]
    for name in ("/tags/9", "/tags/x", "tags", ""):
        odd = change_items({**fields, "remove": name})
        assert odd is not None
        assert read_form(SCHEMA, odd)["tags"] == ["a", "b", "c"]
    assert change_items(fields) is None


@pytest.mark.requirement("CO-01")
def test_unreadable_form_value_stays_text_with_the_error_beside_its_field() -> None:
    found = read_form(SCHEMA, {"/count": "many", "/any": "{", "#/tags": "999999", "#/lines": "-1"})
    assert (found["count"], found["any"]) == ("many", "{")
    assert "tags" not in found
    html = build_form_fields(SCHEMA, found, {"count": "is not a number", "other": "x"})
    beside = html[html.index('id="at/count"') :]
    assert 'aria-invalid="true"' in beside[:200]
    assert "count is not a number" in beside[:400]
    assert html.count("aria-invalid") == 1


@pytest.mark.requirement("CO-01", "D-26")
def test_form_never_shows_a_typed_secret_again() -> None:
    schema = {"properties": {"pin": {"type": "string", "writeOnly": True}}}
    html = build_form_fields({"type": "object", **schema}, {"pin": "12345"}, {})
    assert 'type="password"' in html
    assert "12345" not in html


@pytest.mark.requirement("CO-01", "D-15")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/nothing"}}},
        {"type": "object", "properties": {"a": True, "b": {"type": "array", "items": {"$ref": "#/properties/b"}}}},
        {"type": 3, "properties": []},
    ],
    ids=str,
)
def test_invalid_or_unusual_schema_still_produces_a_form(schema: dict[str, Any]) -> None:
    html = build_form_fields(schema, {}, {})
    assert html.count("<div") < 20
    assert isinstance(read_form(schema, Fields(html).fields), dict)
    has_lists(schema)


DECIMAL = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^\d+(\.\d+)?$"}]}


@pytest.mark.requirement("FU-57")
@pytest.mark.parametrize(
    "schema",
    [
        DECIMAL,
        {"anyOf": [*DECIMAL["anyOf"], {"type": "null"}]},
        TypeAdapter(Decimal).json_schema(),  # newer versions of pydantic say no pattern
    ],
)
def test_decimal_is_a_field_for_a_number_and_keeps_each_digit(schema: dict[str, Any]) -> None:
    whole = {"type": "object", "properties": {"amount": schema}, "required": ["amount"]}
    html = build_form_fields(whole, {"amount": "0.10"}, {})
    assert 'inputmode="decimal"' in html
    assert 'value="0.10"' in html
    assert "JSON" not in html
    assert read_form(whole, {"/amount": " 12345678901234567890.10 "}) == {"amount": "12345678901234567890.10"}
    assert read_form(whole, {"/amount": "0.10"}) == {"amount": "0.10"}
    assert read_form(whole, {"/amount": "12.5"}) == {"amount": 12.5}
    assert read_form(whole, {"/amount": "NaN"}) == {"amount": "NaN"}
    assert read_form(whole, {"/amount": ""}) == {}


@pytest.mark.requirement("FD-06")
def test_a_form_that_nobody_filled_in_shows_one_item_of_a_list_that_is_needed() -> None:
    line = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
    lines, texts = ({"type": "array", "items": one} for one in (line, {"type": "string"}))
    properties = {"lines": lines, "tags": texts, "more": lines}
    whole = {"type": "object", "properties": properties, "required": ["lines", "tags"]}
    first = read_form(whole, {})
    assert first == {"lines": [{"sku": ""}], "tags": []}
    assert read_form(whole, Fields(build_form_fields(whole, first, {})).fields) == first
    assert read_form(whole, {"#/lines": "0"}) == {"lines": [], "tags": []}


@pytest.mark.requirement("FU-57")
def test_link_fills_a_list_without_its_counter() -> None:
    tags = {"type": "array", "items": {"type": "string"}}
    lines = {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}}
    whole = {"type": "object", "properties": {"tags": tags, "lines": lines}}
    fields = {"/tags/0": "a", "/tags/1": "b", "/tags/3": "d", "/lines/0/sku": "tea", "/lines/1/sku": "milk"}
    found = {"tags": ["a", "b"], "lines": [{"sku": "tea"}, {"sku": "milk"}]}
    assert read_form(whole, fields) == found
    assert read_form(whole, {"/tags": '["a", "b"]', "/lines/0/sku": "tea"}) == {
        "tags": ["a", "b"],
        "lines": [{"sku": "tea"}],
    }
    assert read_form(whole, {"/tags": "[no"}) == {}
    assert len(read_form(whole, {f"/tags/{number}": "x" for number in range(500)})["tags"]) == 100


@pytest.mark.requirement("FD-06")
@given(ARGUMENTS)
def test_link_fills_every_kind_of_argument(arguments: dict[str, Any]) -> None:
    fields = write_link_fields(SCHEMA, arguments)
    assert json.dumps(read_form(SCHEMA, fields), sort_keys=True) == json.dumps(arguments, sort_keys=True)


@pytest.mark.requirement("FD-06")
def test_link_that_a_person_writes_fills_choices_and_whole_values() -> None:
    fields = {"/text": "x", "/count": "2", "/kind": "a", "/gift": "true", "/line": '{"sku": "tea"}', "/lines": "[]"}
    found = {"text": "x", "count": 2, "kind": "a", "gift": True, "line": {"sku": "tea"}, "lines": []}
    assert read_form(SCHEMA, fields) == found
    digits = {"type": "object", "properties": {"level": {"enum": ["1", "2"]}}}
    assert read_form(digits, {"/level": "1"}) == read_form(digits, {"/level": '"1"'}) == {"level": "1"}


@pytest.mark.requirement("FD-06", "D-26")
def test_link_to_a_call_has_no_secret() -> None:
    pin = {"type": "string", "writeOnly": True}
    nested = {"type": "object", "properties": {"word": {"type": "string", "format": "password"}, "to": {}}}
    free = {"oneOf": [{"type": "object", "properties": {"key": pin}}, {"type": "string"}]}
    schema = {"type": "object", "properties": {"pin": pin, "card": nested, "free": free, "name": {"type": "string"}}}
    values = {"pin": "s-1", "card": {"word": "s-2", "to": 1}, "free": {"key": "s-3"}, "name": "Ada"}
    assert write_link_fields(schema, values) == {"/name": "Ada", "/card/to": "1"}


@pytest.mark.requirement("FD-06")
def test_example_is_a_placeholder_and_no_value() -> None:
    properties = {
        "city": {"type": "string", "examples": ["Bonn <b>"]},
        "count": {"type": "integer", "examples": [3]},
        "plan": {"examples": [{"a": 1}]},
        "when": {"type": "string", "format": "date-time"},
        "pin": {"type": "string", "writeOnly": True, "examples": ["0000"]},
        "amount": {"type": "string", "format": "decimal", "examples": ["9.90"]},
    }
    html = build_form_fields({"type": "object", "properties": properties}, {}, {})
    shown = ("Bonn &lt;b&gt;", "3", "{&quot;a&quot;: 1}", "2027-03-01T10:00:00Z", "9.90")
    assert all(f'placeholder="{one}"' in html for one in shown)
    assert html.count("placeholder=") == len(shown)
    assert html.count('inputmode="decimal"') == 1
    assert not any(Fields(html).fields.values())


@pytest.mark.requirement("FD-06")
def test_item_that_was_added_has_the_focus() -> None:
    before = {"#/lines": "1", "/lines/0/sku": "tea", "add": "/lines"}
    changed = change_items(before)
    assert changed is not None
    html = build_form_fields(SCHEMA, read_form(SCHEMA, changed), {}, find_changed_item(changed, before))
    assert html.index("autofocus") > html.index('id="at/lines/1/sku"') > html.index('id="at/lines/0/qty"')
