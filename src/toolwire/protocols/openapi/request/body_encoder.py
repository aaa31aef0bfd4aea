"""Encode the body of a request from its arguments, in the media type of the plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from toolwire.core.model import Json
from toolwire.core.resources import Resources
from toolwire.framing import jsontext, stream_types

from . import files, forms, parameter_styles
from .forms import Unsendable
from .media_types import choose_type, get_essence, is_json, is_text, is_xml
from .override_names import SPREADING, describe_override, find_taken_key, is_override
from .plan import PLAIN, Plan


class Payload(NamedTuple):
    """A body and its media type."""

    data: bytes
    media_type: str


def write_body(
    plan: Plan, arguments: Mapping[str, Json], resources: Resources | None, errors: dict[str, str]
) -> Payload:
    """Return the body of a call; an empty media type means no body. Unusable arguments are added to ``errors``."""
    # CV-11, CV-12, CV-13, CV-14, CV-15
    if plan.media_type is None or (plan.whole_body is not None and plan.whole_body not in arguments):
        return NOTHING
    if plan.whole_body is None:
        data = {name: arguments[argument] for argument, name in plan.properties if argument in arguments}
        if plan.takes_more and not arguments.keys() <= plan.names:
            # A declared argument wins over an undeclared one that would be the same property.
            more = {name: value for name, value in arguments.items() if name not in plan.names}
            # D-11: the document does not declare these, and servers read some of them as another method or path.
            errors.update(dict.fromkeys(filter(is_override, more), _OVERRIDES))
            data = {**more, **data}
        _check_form_names(plan, data, errors)
        # An optional body of nothing is no body: "{}" might mean "set everything to its default".
        if not data and not plan.body_required:
            return NOTHING
    else:
        data = arguments[plan.whole_body]
    try:
        return _encode(plan, data, resources)
    except Unsendable as error:
        names = {name: argument for argument, name in plan.properties}
        errors[names.get(error.name, plan.whole_body or error.name)] = error.reason
        return NOTHING


def _check_form_names(plan: Plan, data: Mapping[str, Json], errors: dict[str, str]) -> None:
    """Add each argument to ``errors`` of which a key would become another field of a form, or an override."""
    # D-11
    declared = {name: argument for argument, name in plan.properties}
    kind = get_essence(plan.media_type or "")
    if kind != parameter_styles.FORM and not kind.startswith("multipart/"):
        return
    for name, value in data.items():
        encoding = plan.encodings.get(name, PLAIN)
        is_spread = isinstance(value, Mapping) and encoding.style in SPREADING and encoding.explode
        keys, others = (
            (value, declared.keys() - {name}) if is_spread else ([name] if name not in declared else [], declared)
        )
        if key := next(filter(is_override, value if is_spread else ()), "") or find_taken_key(keys, others):
            errors[declared.get(name, name)] = f"cannot have {key[:100]!r}: {describe_override(key)}"


def describe_place(plan: Plan, name: str, argument: str, value: Json) -> str:
    """Return the place of an argument that is the property ``name`` of the body, as the end of a sentence."""
    kind = get_essence(plan.media_type or "")
    is_form = kind == parameter_styles.FORM or kind.startswith("multipart/")
    if is_form and not forms.has_items(name, value, plan.encodings):
        return "not sent: it is empty"
    place = "in the form" if is_form else "in the body"
    return place if name == argument else f"{place}, as {name}"


NOTHING = Payload(b"", "")
# RFC 2046, 5.1.1; without the quotation mark
_BOUNDARY = re.compile(r"(?:\r?\n)?--([0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-])[ \t]*\r?\n")
_OVERRIDES = "is not in the document, and some servers would take it for another method or path"


def _encode(plan: Plan, data: Json, resources: Resources | None) -> Payload:
    media_type = plan.media_type or ""
    kind = get_essence(media_type)
    if stream_types.is_stream(kind):
        return Payload(_write_lines(kind, data), media_type)
    if is_json(kind):
        return Payload(jsontext.write(data), media_type)
    if plan.binary:
        return _encode_file(plan, data, resources)
    if kind == parameter_styles.FORM or kind.startswith("multipart/"):
        return _encode_form(plan, media_type, data, resources)
    # A string is sent as it is in any type that is not JSON: the model has written the text itself.
    if is_text(kind) or is_xml(kind) or isinstance(data, str):
        return Payload(parameter_styles.write_scalar(data).encode(), media_type)
    return Payload(jsontext.write(data), media_type)


def _encode_form(plan: Plan, media_type: str, data: Json, resources: Resources | None) -> Payload:
    is_multipart = get_essence(media_type) != parameter_styles.FORM
    # O-28: where the document says that the body is a text, it is sent as it is.
    if isinstance(data, str):
        return Payload(data.encode(), _add_boundary(media_type, data) if is_multipart else media_type)
    # The parts of form-data have names, which the items of a list have not.
    if isinstance(data, list) and is_multipart and get_essence(media_type) != "multipart/form-data":
        body, boundary = forms.encode_unnamed_parts(data)
    elif not isinstance(data, dict):
        raise Unsendable("", "must be an object whose properties are the form's fields")
    elif is_multipart:
        body, boundary = forms.encode_multipart(data, plan.encodings, resources)
    else:
        return Payload(forms.encode_urlencoded(data, plan.encodings), media_type)
    return Payload(body, f"{media_type}; boundary={boundary}")


def _write_lines(kind: str, data: Json) -> bytes:
    """Return the items of ``data`` as JSON, one on each line; before each, a json-seq has a record separator."""
    # O-28
    start = b"\x1e" if kind.endswith("json-seq") else b""
    return b"".join(start + jsontext.write(item) + b"\n" for item in (data if isinstance(data, list) else [data]))


def _add_boundary(media_type: str, text: str) -> str:
    """Return ``media_type`` with the boundary that the whole body ``text`` begins with.

    Raises:
        Unsendable: it begins with none.
    """
    found = _BOUNDARY.match(text)
    if found is None:
        raise Unsendable("", "must be the whole multipart body: its first line is -- and the boundary")
    return f'{media_type}; boundary="{found[1]}"'


def _encode_file(plan: Plan, data: Json, resources: Resources | None) -> Payload:
    try:
        file = files.read_file(data, resources)
    except ValueError as error:
        raise Unsendable("", str(error)) from None
    return Payload(file.data, choose_type(plan.media_type or "", file.media_type))
