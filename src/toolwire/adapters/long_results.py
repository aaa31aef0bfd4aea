"""Keep the long results of a toolbox, which its model reads in parts.

A handle of one toolbox means nothing to another: each has a store of its own, and nobody can guess a handle. The store
is bounded and in memory, and it is gone with its toolbox.
"""
# QF-10

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from toolwire.core.model import Json, Kind, Problem
from toolwire.core.resources import DEFAULT_RESULT_LIMITS, Resource, Resources, ResultLimits
from toolwire.framing import jsontext
from toolwire.framing.long_result import Part, cut_result, read_part


class LongResults:
    """The long results of one toolbox. ``characters`` is the longest result that its model gets whole."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        self._stored = Resources(os.urandom(32))

    def cut(self, text: str, source: str, name: str) -> Part | None:
        """Keep the value whose JSON is ``text``, and return its first part; None if it cannot be read.

        ``source`` says whose data it is, with each part of it. ``name`` is that of ``read_result`` in the list of the
        model.
        """
        body = text.encode("utf-8", "replace")
        whole = jsontext.read(body)
        if isinstance(whole, Problem):
            return None
        handle = self._stored.store(Resource(data=body, media_type="application/json", name=source))
        return cut_result(whole, self.characters, name, handle)

    def read(self, arguments: Mapping[str, Json]) -> dict[str, Json] | Problem:
        """Return the part that ``arguments`` of a call of ``read_result`` choose, framed as the first part was."""
        handle = arguments.get("handle")
        resource = self._stored.find(handle) if isinstance(handle, str) else None
        whole = describe_unkept() if resource is None else jsontext.read(resource.data)
        part = whole if isinstance(whole, Problem) else read_part(whole, arguments, self.characters)
        if isinstance(part, Problem):
            return part
        frame: dict[str, Json] = {"source": resource.name} if resource is not None and resource.name else {}
        return {**frame, "result": part.value, **({"notes": part.notes} if part.notes else {})}


def describe_unkept() -> Problem:
    """Return what a model reads of a handle that leads to nothing."""
    text = "No result with this handle is stored. Newer results replaced it. Make the call again."
    return Problem(kind=Kind.INVALID_ARGUMENTS, message=text)


_LOCK: Final = Lock()
_STORES: Final[WeakKeyDictionary[object, LongResults]] = WeakKeyDictionary()


def find_long_results(toolbox: object) -> LongResults | None:
    """Return the long results of ``toolbox``; None for one that nothing can be kept for, whose results stay whole."""
    limits = getattr(toolbox, "result_limits", DEFAULT_RESULT_LIMITS)
    try:
        with _LOCK:
            found = _STORES.get(toolbox)
            if found is None and toolbox is not None and isinstance(limits, ResultLimits):
                found = _STORES[toolbox] = LongResults(limits.characters)
            return found
    except TypeError:  # it has no weak references or no hash
        return None
