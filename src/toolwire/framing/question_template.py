"""Fill the template of a tool's question with the arguments of a call.

Rules:
- ``{/amount}`` stands for the argument at that JSON Pointer, written as JSON: quotes tell a value from the words of the
  template. Any other brace is a brace.
- A value is never a template. Long values and long texts are cut, and the cut is said: the arguments are shown in full
  beside the text.
"""
# CC-02

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from toolwire.core.condition import MAX_QUESTION
from toolwire.core.json_pointer import MISSING, parse_pointer, resolve_pointer
from toolwire.core.model import Json

from .text_cleaning import clean
from .visible_text import make_visible, make_visible_json

_MAX_TEXT: Final = 2_000
_MAX_VALUE: Final = 200
_PLACE: Final = re.compile(r"\{((?:/(?:[^~/{}]|~[01])*)+)\}")


def read_template(data: Json) -> str:
    """Return the template in ``data``; ``""`` if it is no text, or has more than 500 characters."""
    return data if isinstance(data, str) and len(data) <= MAX_QUESTION else ""


def list_template_names(template: str) -> list[str]:
    """Return the names of the arguments that ``template`` stands for, in order."""
    return [str(parse_pointer(found[1])[0]) for found in _PLACE.finditer(template)]


def fill_template(template: str, arguments: Mapping[str, Json], secrets: Collection[str] = ()) -> str:
    """Return ``template`` on one line, with values of ``arguments``; those that ``secrets`` names are masked."""

    def write(found: re.Match[str]) -> str:
        if parse_pointer(found[1])[0] in secrets:
            return "********"
        value = resolve_pointer(arguments, found[1])
        if value is MISSING:
            return "(not given)"
        text = make_visible_json(value)
        return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}... ({len(text):,} characters)"

    parts: list[str] = []
    last = 0
    for found in _PLACE.finditer(template):
        parts += [make_visible(clean(template[last : found.start()]).text), write(found)]
        last = found.end()
    text = "".join((*parts, make_visible(clean(template[last:]).text))).strip()
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}... ({len(text):,} characters)"
