"""Requests with one edit."""

from __future__ import annotations

import random
from typing import Any

ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    7.5,
    1e308,
    10**30,
    "",
    "x",
    "\u0000",
    "\U0001f600",
    [],
    {},
    [[]],
    {"a": {}},
    [1, "a"],
]

BYTES = [
    b"",
    b"\x00",
    b"\xff",
    b"\r\n",
    b"\n",
    b" ",
    b":",
    b'"',
    b"{",
    b"]",
    b"%",
    b"..",
    b"//",
    b"\\u0000",
    b"A" * 500,
]


def edit_data(data: Any, chance: random.Random) -> Any:
    """Return ``data`` with one spot replaced, removed or added."""
    if isinstance(data, dict) and data and chance.random() < 0.8:
        name = chance.choice(list(data))
        match chance.randrange(4):
            case 0:
                return {key: value for key, value in data.items() if key != name}
            case 1:
                return {**data, chance.choice(["id", "input", "__proto__", "", "\u2028"]): chance.choice(ODD)}
            case _:
                return {**data, name: edit_data(data[name], chance)}
    if isinstance(data, list) and data and chance.random() < 0.8:
        index = chance.randrange(len(data))
        return [*data[:index], edit_data(data[index], chance), *data[index + 1 :]]
    return chance.choice(ODD)


def scratch_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return ``data`` with a few bytes cut, swapped, doubled or put in."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice([0, 1, 1, 2, 8, 40]))
        middle = chance.choice([*BYTES, data[start:end] * 2, bytes([chance.randrange(256)])])
        data = data[:start] + middle + data[end:]
    return data
