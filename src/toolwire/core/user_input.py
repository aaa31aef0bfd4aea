"""Describe what a server asks the user while a call runs, and what the user entered.

Rules:
- A form has flat fields only: texts, numbers, yes or no, and choices.
- Content counts only if every field fits. Nothing is filled in that the user did not see.
- A URL is only shown: only the user opens it.
"""
# MC-09

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import StrEnum
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias

from .model import Json

MAX_ATTEMPTS: Final = 3
"""How often a user is asked the same form again because what was entered does not fit."""

MAX_TEXT: Final = 10_000
"""The longest text that a field takes, in characters."""

_EMAIL: Final = re.compile(r"[^@\s]{1,64}@[^@\s]{1,255}")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:\S+")
_YES: Final = ("y", "yes", "true")
_NO: Final = ("n", "no", "false")


class FieldKind(StrEnum):
    """What a field of a form takes."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    CHOICES = "choices"


class Choice(NamedTuple):
    """One value of a field with choices, and how it is shown."""

    value: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputField:
    """One field of a form.

    ``title`` and ``description`` are words of the server. ``minimum`` and ``maximum`` limit a number, the length of a
    text or the number of choices. ``format`` is email, uri, date, date-time or empty.
    """

    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    is_required: bool = False
    default: Json = None
    choices: tuple[Choice, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    format: str = ""

    @property
    def label(self) -> str:
        """The title, or the name where there is none."""
        return self.title or self.name

    def find_fault(self, value: Json) -> str:  # noqa: PLR0911 - a sentence for each kind
        """Return why ``value`` does not fit, as the end of a sentence, or ``""``."""
        match self.kind:
            case FieldKind.BOOLEAN:
                return "" if isinstance(value, bool) else "must be yes or no"
            case FieldKind.INTEGER | FieldKind.NUMBER:
                return self._find_number_fault(value)
            case FieldKind.CHOICE:
                values = [choice.value for choice in self.choices]
                return "" if value in values else f"must be one of {', '.join(values)[:500]}"
            case FieldKind.CHOICES:
                known = {choice.value for choice in self.choices}
                if not isinstance(value, list) or not all(isinstance(one, str) and one in known for one in value):
                    return f"must be some of {', '.join(choice.value for choice in self.choices)[:500]}"
                return self._find_range_fault(len(value), "choices")
            case FieldKind.TEXT:
                if not isinstance(value, str) or len(value) > MAX_TEXT:
                    return f"must be a text of at most {MAX_TEXT:,} characters"
                return self._find_range_fault(len(value), "characters") or _find_format_fault(self.format, value)

    def parse(self, text: str) -> Json:
        """Return the value that a person means by ``text``; the text itself if it is none of the kind."""
        text = text.strip()
        match self.kind:
            case FieldKind.BOOLEAN:
                return True if text.lower() in _YES else False if text.lower() in _NO else text
            case FieldKind.INTEGER | FieldKind.NUMBER:
                return _parse_number(text)
            case FieldKind.CHOICE:
                return self._parse_choice(text)
            case FieldKind.CHOICES:
                return [self._parse_choice(part.strip()) for part in text.split(",") if part.strip()]
            case FieldKind.TEXT:
                return text

    def _parse_choice(self, text: str) -> str:
        """Return the value that ``text`` names: by its number from 1, by its title or by itself."""
        for choice in self.choices:
            if text in (choice.value, choice.title):
                return choice.value
        if text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= len(self.choices):
            return self.choices[int(text) - 1].value
        return text

    def _find_number_fault(self, value: Json) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            return "must be a whole number" if self.kind is FieldKind.INTEGER else "must be a number"
        if self.kind is FieldKind.INTEGER and value != int(value):
            return "must be a whole number"
        return self._find_range_fault(value, "")

    def _find_range_fault(self, value: float, unit: str) -> str:
        words = f" {unit}" if unit else ""
        verb = "have" if unit else "be"
        if self.minimum is not None and value < self.minimum:
            return f"must {verb} at least {self.minimum:g}{words}"
        if self.maximum is not None and value > self.maximum:
            return f"must {verb} at most {self.maximum:g}{words}"
        return ""


class InputAction(StrEnum):
    """What the user did: entered something, said no, or left without an answer."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"


class InputResponse(NamedTuple):
    """The user's answer to an ``InputRequest``. ``content`` contains what they entered, by field name."""

    action: InputAction
    content: Mapping[str, Json] | None = None


DECLINED: Final = InputResponse(InputAction.DECLINE)
CANCELLED: Final = InputResponse(InputAction.CANCEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """A server's request to the user during a call: to fill in a form, or to open a page.

    - ``message``: the server's text, cleaned (untrusted).
    - ``fields``: the form's fields. Empty for a page.
    - ``url``, ``host``: the page to open, and its host. Empty for a form.
    - ``site``, ``title``, ``connection``, ``tool``: who asks, and for which call. ``title`` is untrusted text.
    - ``faults``: what was wrong with the last answer, by field.
    - ``respond``: builds the response to the server. The client calls it.
    """

    message: str
    fields: tuple[InputField, ...] = ()
    url: str = ""
    host: str = ""
    site: str = ""
    title: str = ""
    connection: str = ""
    tool: str = ""
    faults: Mapping[str, str] = field(default_factory=dict)
    respond: Callable[[InputResponse], Any] = field(default=lambda response: response, repr=False, compare=False)

    def find_faults(self, content: Mapping[str, Json]) -> dict[str, str]:
        """Return what is wrong with ``content``, by field name. Empty if it is valid."""
        known = {one.name: one for one in self.fields}
        faults = {name[:100]: "is not a field of this form" for name in content if name not in known}
        for name, one in known.items():
            if name in content and (fault := one.find_fault(content[name])):
                faults[name] = fault
            elif name not in content and one.is_required:
                faults[name] = "is required"
        return faults


InputReply: TypeAlias = InputResponse | Mapping[str, Json] | bool | None
"""What a provider of input returns: the values of the fields; True for a page that was opened; None or False for no."""

InputProvider: TypeAlias = Callable[[InputRequest], InputReply | Awaitable[InputReply]]
"""Asks the user for what a server wants to know while a call runs. It may be a coroutine function."""


def read_reply(asked: InputRequest, reply: object) -> InputResponse | InputRequest:
    """Return ``reply`` as the response to ``asked``, or ``asked`` again with its faults if the content does not fit."""
    content: object = None
    if isinstance(reply, InputResponse):
        if reply.action is not InputAction.ACCEPT:
            return InputResponse(reply.action)
        content = reply.content or {}
    elif isinstance(reply, Mapping):
        content = reply
    elif reply is True:
        content = {}
    if not isinstance(content, Mapping):
        return DECLINED
    if asked.url:
        return InputResponse(InputAction.ACCEPT)
    given = {str(name): value for name, value in content.items()}
    faults = asked.find_faults(given)
    return replace(asked, faults=faults) if faults else InputResponse(InputAction.ACCEPT, given)


def _parse_number(text: str) -> Json:
    if len(text) > 100:
        return text
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _find_format_fault(format_: str, text: str) -> str:
    match format_:
        case "email":
            return "" if _EMAIL.fullmatch(text) else "must be an e-mail address"
        case "uri":
            return "" if _URI.fullmatch(text) else "must be a URL"
        case "date":
            return "" if _is_date(text) else "must be a date such as 2026-12-31"
        case "date-time":
            return "" if _is_datetime(text) else "must be a time such as 2026-12-31T12:00:00Z"
        case _:
            return ""


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _is_datetime(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return len(text) > 10
