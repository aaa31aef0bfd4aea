"""Define a loss: what a conversion dropped, where it is in the source, and what replaces it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from toolwire.core.json_pointer import join_pointer
from toolwire.core.model import Json
from toolwire.framing import jsontext

NOTHING = "nothing"
_SHOWN_CHARACTERS = 80


class Loss(NamedTuple):
    """What a conversion dropped: ``what``, at ``pointer`` in the source. ``instead`` is what replaces it."""

    pointer: str
    what: str
    instead: str = NOTHING


def list_unread(node: Mapping[str, Json], known: Collection[str], where: str) -> Iterator[Loss]:
    """Yield a loss for each member of ``node`` that is not ``known``, and so not read."""
    for name in node:
        if name not in known:
            yield Loss(join_pointer(where, name), f"the member {format_value(name)}")


def format_value(value: Json) -> str:
    """Return ``value`` as JSON for a sentence, cut where it is long."""
    text = jsontext.write(value).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
