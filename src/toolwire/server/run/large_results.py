"""Recognise results that take long to check or to write, and split them so that other threads run meanwhile.

One call of the JSON writer cannot be interrupted, in no thread: ten megabytes would keep the event loop waiting for
tens of milliseconds. So the parts of a large value are written one by one, in a thread.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from anyio import to_thread

from toolwire.core.interpreter import switch_threads_often
from toolwire.core.model import Json, Result, Value
from toolwire.framing.jsontext import encode_fragment, write_items

LARGE_ITEMS = 2_000
"""The most items of a result that is checked, converted and written on the event loop; a larger one uses a thread."""

COLLECTIONS = frozenset({list, dict})
_SMALL_DICT = 16
_LEVELS = 3


def is_large_result(result: Result) -> TypeGuard[Value]:
    """Return whether ``result`` is a value that takes long to write."""
    return isinstance(result, Value) and type(result.value) in COLLECTIONS and is_large(result.value)


def is_large(value: Any) -> bool:
    """Return whether a list or dict seems to have many items; it looks at a few of them only."""
    return _estimate_items(value, _LEVELS) > LARGE_ITEMS


def _estimate_items(value: Any, levels: int) -> int:
    """Return the number of items, taking each item of a list for as large as the first."""
    size = len(value)
    if not size or size > LARGE_ITEMS or not levels:
        return size
    if type(value) is list:
        first = value[0]
        return size * (1 + _estimate_items(first, levels - 1)) if type(first) in COLLECTIONS else size
    if size > _SMALL_DICT:
        return size
    for member in value.values():
        if type(member) in COLLECTIONS:
            size += _estimate_items(member, levels - 1)
    return size


def split_value(value: Json) -> Json:
    """Return ``value`` with its parts already written as JSON text, for ``jsontext.write``.

    The outer lists and dicts stay what they are, but an item of a list may be the text of several items.

    Raises:
        TypeError, ValueError: a part cannot be written as JSON.
        RuntimeError: another thread changed the value meanwhile.
    """
    return _split(value, _LEVELS)


async def write_in_parts(result: Value) -> Value:
    """Return ``result`` with its value as finished JSON text, written in a thread, or unchanged if it is no JSON."""
    try:
        return Value(await to_thread.run_sync(_write, result.value), result.notes)
    except (TypeError, ValueError, RecursionError, RuntimeError):
        return result


def _write(value: Json) -> Json:
    with switch_threads_often():
        return encode_fragment(split_value(value))


def _split(value: Any, levels: int) -> Json:
    if type(value) not in COLLECTIONS or not levels or not is_large(value):
        return value
    if type(value) is list:
        first = value[0]
        width = 1 + _estimate_items(first, levels - 1) if type(first) in COLLECTIONS else 1
        if width > LARGE_ITEMS:
            return [_write_part(item, levels) for item in value]
        step = LARGE_ITEMS // width
        return [write_items(value[at : at + step]) for at in range(0, len(value), step)]
    return {name: _write_part(member, levels) for name, member in value.items()}


def _write_part(value: Any, levels: int) -> Json:
    if type(value) not in COLLECTIONS:
        return value  # a codec may look at it
    return _split(value, levels - 1) if is_large(value) else encode_fragment(value)
