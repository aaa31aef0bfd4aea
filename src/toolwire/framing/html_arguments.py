"""Write a form for the arguments of a tool from its JSON Schema, and read the arguments back from its fields.

Rules:
- The name of a field is the JSON Pointer of its value. An optional field that is left empty is an argument left out.
- What a field cannot express is written as JSON. A value that cannot be read stays text, so that the check of the
  arguments says what is wrong with it.
"""
# CO-01

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from toolwire.core.json_pointer import resolve_reference
from toolwire.core.model import Json, Schema

from .html import NO_HTML, Html, escape_text, join_html
from .html_page import build_lines, build_options

ADD: Final = "add"
REMOVE: Final = "remove"
COUNT: Final = "#"
_MAX_DEPTH = 4
_MAX_ITEMS = 100
_LONG_TEXT = 300
_TYPES = {"date": "date", "time": "time", "email": "email", "uri": "url", "url": "url", "password": "password"}
_NUMBERS_AS_TEXT = ("decimal", "money", "number")
_EXAMPLES = {"date-time": "2027-03-01T10:00:00Z", "duration": "PT15M", "uuid": "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"}


class _Field(NamedTuple):
    """One value of the form: where it is, its schema without references, and what is known about it."""

    pointer: str
    label: str
    schema: Schema
    root: Schema
    required: bool
    depth: int
    focus: str = ""

    @property
    def kind(self) -> str:
        """The kind of input: enum, boolean, integer, number, decimal, string, object, array or json."""
        schema = self.schema
        choices = schema.get("enum")
        if isinstance(choices, list) and choices and all(not isinstance(one, dict | list) for one in choices):
            return "enum"
        if _is_decimal(schema):
            return "decimal"
        kind = schema.get("type")
        if kind == "object":
            return "object" if self.depth < _MAX_DEPTH and _find_properties(schema) else "json"
        if kind == "array":
            return "array" if self.depth < _MAX_DEPTH and isinstance(schema.get("items"), dict) else "json"
        return kind if kind in ("boolean", "integer", "number", "string") else "json"

    def step_to_item(self, number: int) -> _Field:
        """Return the field of an item of a list."""
        return self.step(str(number), self.schema["items"], required=True)

    def list_members(self) -> list[_Field]:
        """Return the fields of an object."""
        required = self.schema.get("required", ())
        return [
            self.step(name, schema, required=isinstance(required, list) and name in required)
            for name, schema in _find_properties(self.schema).items()
        ]

    def step(self, name: str, schema: Schema, *, required: bool) -> _Field:
        """Return the field of a member or an item."""
        whole = _resolve(schema, self.root)
        pointer = f"{self.pointer}/{name.replace('~', '~0').replace('/', '~1')}"
        return _Field(pointer, name, whole, self.root, required, self.depth + 1, self.focus)

    @property
    def is_secret(self) -> bool:
        """Whether a page may not show the value, once it was typed."""
        return self.schema.get("writeOnly") is True or self.schema.get("format") == "password"


def build_form_fields(schema: Schema, values: Mapping[str, Json], faults: Mapping[str, str], focus: str = "") -> Html:
    """Return the fields for an object of ``schema``, filled with ``values``; ``faults`` says what is wrong, by name.

    ``focus`` is the JSON Pointer of a value: its first field gets the focus.
    """
    html = []
    for field in _build_root(schema)._replace(focus=focus).list_members():
        wrong = "; ".join(text for name, text in faults.items() if _is_about(name, field.label))
        html.append(_build_field(field, values.get(field.label), wrong))
    return join_html(html)


def read_form(schema: Schema, fields: Mapping[str, str]) -> dict[str, Json]:
    """Return the arguments that are in ``fields``."""
    found = {field.label: _read_field(field, fields) for field in _build_root(schema).list_members()}
    return {name: value for name, value in found.items() if value is not _LEFT_OUT}


def write_link_fields(schema: Schema, values: Mapping[str, Json]) -> dict[str, str]:
    """Return the fields by which a link fills the form with ``values``, without what is secret."""
    # FD-06
    found: dict[str, str] = {}
    pending = [(field, values.get(field.label)) for field in _build_root(schema).list_members()]
    while pending:
        field, value = pending.pop(0)
        if value is None or field.is_secret or (field.kind == "json" and _may_have_secrets(field)):
            continue
        if field.kind == "object" and isinstance(value, Mapping):
            pending += [(one, value.get(one.label)) for one in field.list_members()]
        elif field.kind == "array" and isinstance(value, list) and value:
            pending += [(field.step_to_item(number), one) for number, one in enumerate(value)]
        else:
            is_text = isinstance(value, str) and field.kind in ("string", "decimal")
            found[field.pointer] = str(value) if is_text else json.dumps(value, ensure_ascii=False)
    return found


def change_items(fields: Mapping[str, str]) -> dict[str, str] | None:
    """Return ``fields`` with one more or one less item where a button of a list was pressed, else None."""
    if ADD in fields:
        counter = f"{COUNT}{fields[ADD]}"
        return {**fields, counter: str(_read_count(fields, fields[ADD]) + 1)}
    if REMOVE not in fields:
        return None
    pointer, _, last = fields[REMOVE].rpartition("/")
    count, gone = _read_count(fields, pointer), int(last) if last.isascii() and last.isdigit() else -1
    if not 0 <= gone < count:
        return dict(fields)
    others = {name: text for name, text in fields.items() if not _is_below(name, f"{pointer}/{gone}")}
    moved: dict[str, str] = {}
    for name, text in others.items():
        after = [number for number in range(gone + 1, count) if _is_below(name, f"{pointer}/{number}")]
        new = name.replace(f"{pointer}/{after[0]}", f"{pointer}/{after[0] - 1}", 1) if after else name
        moved[new] = text
    return {**moved, f"{COUNT}{pointer}": str(count - 1)}


def find_changed_item(changed: Mapping[str, str], before: Mapping[str, str]) -> str:
    """Return the JSON Pointer of the item that ``change_items`` added, or of the one after that which it removed."""
    if ADD in before:
        return f"{before[ADD]}/{_read_count(changed, before[ADD]) - 1}"
    return before.get(REMOVE, "")


def has_lists(schema: Schema) -> bool:
    """Return whether the form has a list, whose buttons come before the button that sends the form."""
    pending = _build_root(schema).list_members()
    while pending:
        field = pending.pop()
        if field.kind == "array":
            return True
        if field.kind == "object":
            pending += field.list_members()
    return False


_LEFT_OUT: Any = object()


def _build_root(schema: Schema) -> _Field:
    return _Field("", "", _resolve(schema, schema), schema, required=True, depth=0)


def _find_properties(schema: Schema) -> Mapping[str, Schema]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {name: one if isinstance(one, Mapping) else {} for name, one in properties.items()}


def _is_decimal(schema: Schema) -> bool:
    """Return whether ``schema`` takes a number, and a text of digits where a number would lose some of them."""
    # FU-57
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(alternatives, list):
        return False
    real = [one for one in alternatives if isinstance(one, Mapping) and one.get("type") != "null"]
    numbers = [one for one in real if one.get("type") in ("number", "integer")]
    texts = [one for one in real if one.get("type") == "string"]
    is_number = any(one["type"] == "number" or "pattern" in one or "format" in one for one in numbers + texts)
    return is_number and len(texts) == 1 and bool(numbers) and len(texts) + len(numbers) == len(real)


def _resolve(schema: Schema, root: Schema) -> Schema:
    """Return ``schema`` with its local reference followed, and without the alternative ``null``."""
    for _ in range(8):
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            target = resolve_reference(root, reference)
            if not isinstance(target, Mapping):
                return {}
            schema = {**target, **{name: one for name, one in schema.items() if name != "$ref"}}
            continue
        alternatives = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(alternatives, list):
            real = [one for one in alternatives if isinstance(one, Mapping) and one.get("type") != "null"]
            if len(real) == 1:
                schema = {**{name: one for name, one in schema.items() if name not in ("anyOf", "oneOf")}, **real[0]}
                continue
        kinds = schema.get("type")
        if isinstance(kinds, list) and len(real_kinds := [one for one in kinds if one != "null"]) == 1:
            return {**schema, "type": real_kinds[0]}
        return schema
    return {}


# Writing


def _build_field(field: _Field, value: Json, wrong: str = "") -> Html:
    if field.kind == "object":
        given = value if isinstance(value, Mapping) else {}
        inner = join_html(_build_field(one, given.get(one.label)) for one in field.list_members())
        return Html(f"<fieldset><legend>{_build_label(field)}</legend>{_build_about(field, wrong)}{inner}</fieldset>")
    if field.kind == "array":
        return _build_list(field, value, wrong)
    pointer = escape_text(field.pointer)
    described = Html(f' aria-describedby="about{pointer}"') if _describe(field) or wrong else NO_HTML
    invalid = Html(' aria-invalid="true"') if wrong else NO_HTML
    has_focus = field.focus and f"{field.pointer}/".startswith(f"{field.focus}/")
    focused = Html(" autofocus") if has_focus else NO_HTML
    attributes = Html(f'id="at{pointer}" name="{pointer}"{described}{invalid}{focused}')
    return Html(
        f'<div class="field"><label for="at{pointer}">{_build_label(field)}</label>'
        f"{_build_input(field, value, attributes)}{_build_about(field, wrong)}</div>"
    )


def _may_have_secrets(field: _Field) -> bool:
    text = json.dumps([field.schema, field.root.get("$defs")], default=str)
    return '"writeOnly"' in text or '"password"' in text


def _build_label(field: _Field) -> Html:
    needed = NO_HTML if field.required else Html(" <small>may be left out</small>")
    return Html(f"<code>{escape_text(field.label)}</code>{needed}")


def _build_about(field: _Field, wrong: str) -> Html:
    about = Html(f'<span class="hint">{escape_text(text)}</span>') if (text := _describe(field)) else NO_HTML
    words = escape_text(f"{field.label} {wrong}")
    fault = Html(f'<span class="wrong" role="alert">{words}</span>') if wrong else NO_HTML
    if not about and not fault:
        return NO_HTML
    html = build_lines([part for part in (about, fault) if part])
    return Html(f'<p class="about" id="about{escape_text(field.pointer)}">{html}</p>')


def _describe(field: _Field) -> str:
    schema = field.schema
    parts = [str(schema["description"]).strip()] if schema.get("description") else []
    if field.kind == "json":
        parts.append("Write the value as JSON.")
    if schema.get("default") is not None:
        parts.append(f"Default: {json.dumps(schema['default'], ensure_ascii=False)}.")
    return " ".join(parts)


def _build_input(field: _Field, value: Json, attributes: Html) -> Html:
    schema, needed = field.schema, Html(" required") if field.required else NO_HTML
    if field.kind in ("enum", "boolean"):
        choices = [True, False] if field.kind == "boolean" else schema["enum"]
        named = [("", "choose" if field.required else "left out")]
        named += [(json.dumps(one), _name_choice(one)) for one in choices]
        chosen = json.dumps(value) if value in choices else ""
        return Html(f"<select {attributes}{needed}>{build_options(named, chosen)}</select>")
    placeholder = Html(f' placeholder="{escape_text(example)}"') if (example := _find_example(field)) else NO_HTML
    if field.kind == "json" or (field.kind == "string" and _get_limit(schema) > _LONG_TEXT):
        text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return Html(f'<textarea {attributes}{placeholder} spellcheck="false">\n{escape_text(text)}</textarea>')
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if field.kind in ("integer", "number", "decimal"):
        mode = Html("numeric" if field.kind == "integer" else "decimal")
        more = Html(f'inputmode="{mode}" autocomplete="off" value="{escape_text(text)}"{needed}{placeholder}')
        return Html(f"<input {attributes} {more}>")
    mode = Html(' inputmode="decimal"') if schema.get("format") in _NUMBERS_AS_TEXT else NO_HTML
    kind = "password" if field.is_secret else _TYPES.get(str(schema.get("format")), "text")
    shown = "" if field.is_secret else text  # a page that is kept holds no secret
    more = Html(f'autocomplete="off" value="{escape_text(shown)}"{mode}{placeholder}')
    return Html(f'<input {attributes} type="{escape_text(kind)}" {more}>')


def _build_list(field: _Field, value: Json, wrong: str) -> Html:
    items = value if isinstance(value, list) else []
    parts = []
    for number, item in enumerate(items[:_MAX_ITEMS]):
        one = field.step_to_item(number)._replace(label=f"{field.label} {number + 1}")
        parts.append(
            Html(
                f'{_build_field(one, item)}<button name="{REMOVE}" value="{escape_text(one.pointer)}" formnovalidate>'
                f"Remove {escape_text(one.label)}</button>"
            )
        )
    pointer, label = escape_text(field.pointer), escape_text(field.label)
    counter = Html(f'<input type="hidden" name="{COUNT}{pointer}" value="{len(items)}">')
    button = Html(f'<button name="{ADD}" value="{pointer}" formnovalidate>Add to {label}</button>')
    legend = Html(f"<legend>{_build_label(field)}</legend>{_build_about(field, wrong)}")
    return Html(f"<fieldset>{legend}{counter}{join_html(parts)}<p>{button}</p></fieldset>")


def _find_example(field: _Field) -> str:
    """Return an example of the value as it is typed: one of the tool's author, or one of the format."""
    # FD-06
    examples = field.schema.get("examples")
    if isinstance(examples, list) and examples and not field.is_secret:
        first = examples[0]
        return (first if isinstance(first, str) else json.dumps(first, ensure_ascii=False, default=str))[:_LONG_TEXT]
    return _EXAMPLES.get(str(field.schema.get("format")), "")


def _name_choice(value: Json) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _get_limit(schema: Schema) -> int:
    limit = schema.get("maxLength")
    return limit if isinstance(limit, int) else 0


def _is_about(name: str, label: str) -> bool:
    return name == label or name.startswith((f"{label}.", f"{label}[", f"{label}/", f"/{label}"))


# Reading


def _read_field(field: _Field, fields: Mapping[str, str]) -> Json:
    if field.kind == "object":
        if isinstance(whole := _read_whole(fields.get(field.pointer, "")), dict):
            return whole
        found = {one.label: _read_field(one, fields) for one in field.list_members()}
        given = {name: value for name, value in found.items() if value is not _LEFT_OUT}
        # An optional object whose texts are all empty was not meant.
        return given if field.required or any(value not in ("", []) for value in given.values()) else _LEFT_OUT
    if field.kind == "array":
        if isinstance(whole := _read_whole(fields.get(field.pointer, "")), list):
            return whole[:_MAX_ITEMS]
        count = _read_count(fields, field.pointer)
        if f"{COUNT}{field.pointer}" not in fields and field.required and field.step_to_item(0).kind == "object":
            count = count or 1  # a form that nobody has filled in yet shows what an item is
        items = [_read_field(field.step_to_item(number), fields) for number in range(count)]
        return ["" if one is _LEFT_OUT else one for one in items] if items or field.required else _LEFT_OUT
    return _read_text(field, fields)


def _read_text(field: _Field, fields: Mapping[str, str]) -> Json:
    """Return the value of a field that is no object and no list."""
    text = fields.get(field.pointer, "").replace("\r\n", "\n")
    if field.kind == "string":
        return text if text or field.required else _LEFT_OUT
    if not text.strip():
        return _LEFT_OUT
    value = _read_json(text)
    if field.kind == "decimal":
        text = text.strip()
        # A number of JSON has about 15 digits, and says neither 1.50 nor NaN.
        is_exact = type(value) in (int, float) and len(text) < 16 and text[-1].isdigit() and json.dumps(value) == text
        return value if is_exact else text
    # FD-06: a link has a choice as a person writes it, without quotation marks.
    return (
        text if field.kind == "enum" and value not in field.schema["enum"] and text in field.schema["enum"] else value
    )


def _read_json(text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _read_whole(text: str) -> Json:
    """Return the list or the object that a link gives as JSON, or None."""
    return _read_json(text) if text.startswith(("[", "{")) else None


def _read_count(fields: Mapping[str, str], pointer: str) -> int:
    text = fields.get(f"{COUNT}{pointer}")
    if text is None:  # FU-57: a link names the items alone
        starts = f"{pointer}/"
        given = {name[len(starts) :].partition("/")[0] for name in fields if name.startswith(starts)}
        return next((number for number in range(_MAX_ITEMS) if str(number) not in given), _MAX_ITEMS)
    return min(int(text), _MAX_ITEMS) if text.isascii() and text.isdigit() and len(text) < 6 else 0


def _is_below(name: str, pointer: str) -> bool:
    plain = name.removeprefix(COUNT)
    return plain == pointer or plain.startswith(f"{pointer}/")
