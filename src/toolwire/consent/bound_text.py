"""Read the bounds of an "always" that a user types: a value, a comparison, a number of calls, or a time.

Rules:
- Input is read exactly, or refused with a sentence. Nothing is guessed.
- Without input, the bound is the tightest: only the current value.
"""
# CC-03

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, time, timedelta
from typing import Final

from toolwire.core.check import Question
from toolwire.core.condition import SUM, WITHIN, read_plain_path
from toolwire.core.errors import DefinitionError
from toolwire.core.grant_bounds import MAX_USES, GrantBounds
from toolwire.core.json_pointer import build_pointer
from toolwire.core.model import Condition, Json

ANY: Final = "*"
"""The input for any value, or for any number of calls."""

_OPERATORS: Final = {
    "<=": "le", ">=": "ge", "<": "lt", ">": "gt", "=": "eq",
    "at most": "le", "at least": "ge", "less than": "lt", "more than": "gt",
    "sum": SUM, "one of": "in", "in": "in", "matches": "matches", "within": WITHIN, "inside": WITHIN,
}  # fmt: skip
_COMPARISON: Final = re.compile(rf"({'|'.join(map(re.escape, _OPERATORS))})\s*(.+)", re.IGNORECASE | re.DOTALL)
_WORDED: Final = re.compile(r"[a-z ]+", re.IGNORECASE)
_AFTER: Final = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
UPPER: Final = ("le", "lt")
"""The operators that set an upper bound."""
_ORDERING: Final = ("le", "ge", "lt", "gt", SUM)
_AND_SUM: Final = re.compile(r"(.*?)(?:,|\band)\s+(sum\s.+)", re.IGNORECASE | re.DOTALL)
_MAX_VALUE: Final = 1_000


def parse_bound(name: str, shown: Json, text: str) -> Condition | None:
    """Return the condition that ``text`` sets for the argument ``name`` with the current value ``shown``.

    An empty text means only this value. ``*`` means any value, without a condition.

    Raises:
        DefinitionError: ``text`` cannot be read. The message says what can be typed.
    """
    text, pointer = text.strip(), build_pointer([name])
    if text == ANY:
        return None
    if text:
        return Condition(pointer, *_parse_comparison(text, is_text=isinstance(shown, str)))
    if len(json.dumps(shown)) > _MAX_VALUE:
        raise DefinitionError(f"This value is too long for a condition. Type {ANY} for any value.")
    return Condition(pointer, "eq", shown)


def parse_bounds(name: str, shown: Json, text: str) -> list[Condition]:
    """Return the condition of ``parse_bound`` and a bound of the sum after it, as in ``<= 50 and sum 200``."""
    both = None if isinstance(shown, str) else _AND_SUM.fullmatch(text)
    found = [parse_bound(name, shown, one) for one in ((text,) if both is None else both.groups())]
    return [one for one in found if one is not None]


def parse_named_bound(text: str) -> Condition:
    """Return the condition in ``text``: the name of an argument or a JSON Pointer, then a comparison.

    Raises:
        DefinitionError: it cannot be read.
    """
    place, _, comparison = text.strip().partition(" ")
    if not place or not comparison.strip():
        raise DefinitionError(
            f'{text[:100]!r} is not a valid condition. Write one such as "amount <= 50" or "to in Ada, Bob".'
        )
    pointer = place if place.startswith("/") else build_pointer([place])
    return Condition(pointer, *_parse_comparison(comparison.strip(), is_text=False))


def parse_uses(text: str) -> int | None:
    """Return the number of calls in ``text``, or None for ``*``.

    Raises:
        DefinitionError: ``text`` is not a number of calls.
    """
    text = text.strip()
    if text == ANY:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and 1 <= int(text) <= MAX_USES):
        raise DefinitionError(
            f"{text[:20]!r} is not a valid number of calls. Type a number from 1 to {MAX_USES:,}, or {ANY}."
        )
    return int(text)


def parse_until(now: datetime, text: str) -> float | None:
    """Return the time in ``text`` in seconds since 1970, or None if it is empty. A day counts to its end.

    ``now`` has the user's time zone.

    Raises:
        DefinitionError: ``text`` is not a time, or not in the future.
    """
    text = text.strip().lower()
    if not text:
        return None
    found = _read_time(text, now)
    if found is None:
        raise DefinitionError(
            f"{text[:40]!r} is not a valid time. Type one such as friday, 2026-12-24, 2026-12-24T18:00 or 12h."
        )
    if found <= now:
        raise DefinitionError(f"{text[:40]} is in the past. Type a time in the future.")
    return found.timestamp()


def find_default_least(shown: Json) -> Json:
    """Return the default lower bound next to an upper one: 0, or the shown value if that is lower."""
    return min(shown, 0) if isinstance(shown, int | float) and not isinstance(shown, bool) else 0


def parse_least(name: str, shown: Json, text: str) -> Condition | None:
    """Return the condition for the lower bound in ``text``, a number, of the argument ``name``.

    An empty text means the default. ``*`` means no lower bound.

    Raises:
        DefinitionError: ``text`` is not a number.
    """
    # AT-49
    text = text.strip()
    if text == ANY:
        return None
    value = _read_value(text, is_text=False) if text else find_default_least(shown)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DefinitionError(f"{text[:40]!r} is not a number.")
    return Condition(build_pointer([name]), "ge", value)


def list_absent(question: Question) -> tuple[str, ...]:
    """Return the arguments that the question's tool accepts and its call does not contain."""
    return tuple(name for name in question.call.tool.parameters if name not in question.call.arguments)


def build_bounds(
    conditions: Iterable[Condition | None],
    uses: int | None,
    until: float | None,
    *,
    unseen: bool = False,
    tools: Sequence[str] = (),
) -> GrantBounds:
    """Return bounds of the ``conditions`` that are there.

    Raises:
        DefinitionError: nothing would be bounded.
    """
    found = [one for one in conditions if one is not None]
    return GrantBounds(conditions=found or None, uses=uses, until=until, unseen=unseen, tools=tools)


def _parse_comparison(text: str, *, is_text: bool) -> tuple[str, Json]:
    found = _COMPARISON.fullmatch(text)
    word = found[1].lower() if found else ""
    if found is None or (_WORDED.fullmatch(word) and not text[len(word) : len(word) + 1].isspace()):
        raise DefinitionError(f'Type a comparison, such as "<= 50", "in Ada, Bob" or "= 5", not {text[:40]!r}.')
    op, rest = _OPERATORS[word], found[2].strip()
    if not _WORDED.fullmatch(word) and rest[0] in "<>=":  # "=>" is a typo, not a text that begins with ">"
        raise DefinitionError(f"{text[:40]!r} is not a comparison. Put text that begins with {rest[0]} in quotes.")
    if op == "matches":
        return op, rest
    if op == WITHIN:
        if read_plain_path(rest) is None:
            raise DefinitionError(f"{rest[:40]!r} is not a plain folder path. Write one such as /srv/reports.")
        return op, rest
    if op == "in":
        return op, _read_list(rest, is_text=is_text)
    rest = rest.removeprefix("<=").strip() if op == SUM else rest
    value = _read_value(rest, is_text=is_text and op not in _ORDERING)
    if op in _ORDERING and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise DefinitionError(f"{rest[:40]!r} is not a number.")
    return op, value


def _read_list(text: str, *, is_text: bool) -> list[Json]:
    if text.startswith("["):
        listed = _read_value(text, is_text=False)
        if isinstance(listed, list) and listed:
            return listed
        raise DefinitionError(f"{text[:40]!r} is not a valid JSON list of values.")
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise DefinitionError(f"{text[:40]!r} lacks a value.")
    return [_read_value(part, is_text=is_text) for part in parts]


def _read_value(text: str, *, is_text: bool) -> Json:
    """Return the JSON value in ``text``, or the text itself if it is not JSON."""
    if is_text and not text.startswith('"'):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read_time(text: str, now: datetime) -> datetime | None:
    day = now.date()
    try:
        if after := _AFTER.fullmatch(text):
            return now + timedelta(**{_UNITS[after[2]]: int(after[1])})
        if text in _WEEKDAYS:
            day += timedelta(days=(_WEEKDAYS.index(text) - day.weekday()) % 7)
        elif text == "tomorrow":
            day += timedelta(days=1)
        elif text != "today":
            found = datetime.fromisoformat(text.upper())
            if len(text) > len("2026-12-24"):
                return found if found.tzinfo is not None else found.replace(tzinfo=now.tzinfo)
            day = found.date()
        return datetime.combine(day + timedelta(days=1), time.min, tzinfo=now.tzinfo)
    except (ValueError, OverflowError):
        return None
