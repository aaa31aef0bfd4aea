"""Say in one line what a call does: the words of the tool's name, and the values that matter.

Rules:
- The values are the amount, the recipient and the place, found by the names and formats of the arguments and by the
  server's ``question``. Without any, they are all arguments, if those are few and short.
- Texts stand in quotes, so that no value passes for our words. A value that is too long to stand here is named, and
  said to be below: the line never hides that it is there.
- The line stands above the complete call, and never instead of it.
"""
# QF-04

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from toolwire.core.model import Json, Tool
from toolwire.framing.question_template import list_template_names
from toolwire.framing.visible_text import make_visible, make_visible_json

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_AMOUNTS: Final = frozenset({"amount", "price", "total", "sum", "fee", "payment"})
_CURRENCIES: Final = frozenset({"currency"})
_RECIPIENTS: Final = frozenset({"to", "recipient", "recipients", "email", "payee", "iban", "account", "beneficiary"})
_PLACES: Final = frozenset({"path", "file", "filename", "folder", "directory", "destination", "url", "uri"})
_PLACE_FORMATS: Final = frozenset({"uri", "uri-reference", "iri"})
_MAIL_FORMATS: Final = frozenset({"email", "idn-email"})
_MAX_VALUE_LENGTH: Final = 80
_MAX_NAME_LENGTH: Final = 60
_MAX_VALUES: Final = 4


class Headline(NamedTuple):
    """What a call does: ``action`` is the tool's name in words, ``values`` what matters, or ``""``. Fit to show."""

    action: str
    values: str

    @property
    def text(self) -> str:
        """The whole line."""
        return f"{self.action}: {self.values}" if self.values else self.action


def build_headline(tool: Tool, arguments: Mapping[str, Json], unshown: Collection[str] = ()) -> Headline:
    """Return the line about a call of ``tool``; the values of the arguments in ``unshown`` do not stand in it."""
    shown = {name: value for name, value in arguments.items() if name not in unshown}
    # An object is a small table below, and has no place in a line.
    parts = list(_list_parts(tool, {name: value for name, value in shown.items() if not isinstance(value, Mapping)}))
    if not parts and 0 < len(shown) <= _MAX_VALUES and all(_is_short(value) for value in shown.values()):
        parts = [_write_named(name, value) for name, value in shown.items()]
    return Headline(_write_action(tool.name), ", ".join(parts))


def _list_parts(tool: Tool, arguments: Mapping[str, Json]) -> Iterator[str]:
    named = [name for name in list_template_names(tool.question) if name in arguments]
    currency = next((name for name in arguments if _has_word(name, _CURRENCIES)), "")
    amounts = [name for name in arguments if _has_word(name, _AMOUNTS)]
    recipients = [name for name in arguments if _is_about(tool, name, _RECIPIENTS, _MAIL_FORMATS)]
    places = [name for name in arguments if _is_about(tool, name, _PLACES, _PLACE_FORMATS)]
    money = ""
    if amounts:
        unit = arguments.get(currency) if currency else None
        money = _write_value(arguments[amounts[0]])
        money += f" {make_visible(unit)}" if isinstance(unit, str) and 1 <= len(unit) <= 5 and unit.isalpha() else ""
    to = f"to {_write_value(arguments[recipients[0]])}" if recipients else ""
    if money or to:
        yield " ".join(filter(None, (money, to)))
    described = {*amounts[:1], *recipients[:1], *((currency,) if amounts else ())}
    others = dict.fromkeys([*amounts[1:], *recipients[1:], *places, *named])
    yield from (_write_named(name, arguments[name]) for name in others if name not in described)


def _is_about(tool: Tool, name: str, words: Collection[str], formats: Collection[str]) -> bool:
    return _has_word(name, words) or tool.parameters.get(name, {}).get("format") in formats


def _has_word(name: str, words: Collection[str]) -> bool:
    # A name with other signs may look like one of these words without being it.
    return _PLAIN_NAME.fullmatch(name) is not None and any(word.lower() in words for word in _WORD.findall(name))


def _write_action(name: str) -> str:
    """Return the name of a tool in words, such as "Send money" for ``send_money``; as it is where it has no words."""
    if len(name) > _MAX_NAME_LENGTH or not _PLAIN_NAME.fullmatch(name):
        return make_visible(name)
    words = " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in _WORD.findall(name))
    return words[:1].upper() + words[1:] or name


def _write_named(name: str, value: Json) -> str:
    shown = make_visible(name) if len(name) <= _MAX_NAME_LENGTH else "an argument with a long name"
    return f"{shown} {_write_value(value)}"


def _write_value(value: Json) -> str:
    return make_visible_json(value) if _is_short(value) else "(long, see below)"


def _is_short(value: Json) -> bool:
    if isinstance(value, Mapping) or (isinstance(value, list | tuple) and not all(map(_is_scalar, value))):
        return False
    return len(make_visible_json(value)) <= _MAX_VALUE_LENGTH


def _is_scalar(value: Json) -> bool:
    return not isinstance(value, Mapping | list | tuple)
