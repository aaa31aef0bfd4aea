"""Describe what a server asks the user, for a terminal and for a page: who asks, its words, and each field."""
# MC-09, D-21

from __future__ import annotations

from typing import Final

from toolwire.core.model import Json
from toolwire.core.user_input import FieldKind, InputField, InputRequest
from toolwire.framing.visible_text import make_visible, make_visible_json

from .origin_display import display_origin, find_lookalike_warning

NO_SECRETS: Final = (
    "Never enter a password, an API key or a card number. Servers must not ask for them in a form, and "
    "this program can read what you enter."
)

_MAX_TITLE_LENGTH: Final = 80
_TAKES: Final = {
    FieldKind.TEXT: "text",
    FieldKind.INTEGER: "whole number",
    FieldKind.NUMBER: "number",
    FieldKind.BOOLEAN: "yes or no",
    FieldKind.CHOICE: "one of these",
    FieldKind.CHOICES: "some of these, with commas",
}


def describe_asker(asked: InputRequest) -> str:
    """Return who asks, and for which call, as one sentence."""
    # AT-41: a long name would push the rest out of sight.
    title = asked.title if len(asked.title) <= _MAX_TITLE_LENGTH else f"{asked.title[: _MAX_TITLE_LENGTH - 3]}..."
    named = f", which calls itself {make_visible(title)!r}," if title else ""
    return f"{display_origin(asked.site)}{named} asks for input while {make_visible(asked.tool)} runs."


def describe_page(asked: InputRequest) -> str:
    """Return what stands beside the URL of a page: its host, and a warning if that looks like another one."""
    warning = find_lookalike_warning(asked.url)
    elsewhere = "" if asked.url.startswith(f"{asked.site}/") else " That is not the server that asks."
    return f"The page is at {asked.host}.{elsewhere}{f' {warning}' if warning else ''}"


def describe_field(one: InputField) -> str:
    """Return what a field takes, as a phrase."""
    words = [_TAKES[one.kind]]
    if one.format:
        words.append(one.format)
    unit = {FieldKind.TEXT: " characters", FieldKind.CHOICES: " choices"}.get(one.kind, "")
    if one.minimum is not None:
        words.append(f"at least {one.minimum:g}{unit}")
    if one.maximum is not None:
        words.append(f"at most {one.maximum:g}{unit}")
    words.append("required" if one.is_required else "may be left empty")
    return ", ".join(words)


def show_value(value: Json) -> str:
    """Return a value of a field as a person reads it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(make_visible(str(one)) for one in value)
    return make_visible(value) if isinstance(value, str) else make_visible_json(value)
