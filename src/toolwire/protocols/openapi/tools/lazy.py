"""Build mappings at their first use, so that a document of ten thousand tools is read without converting schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolwire.core.model import Json


class LazyMapping(Mapping[str, Json]):
    """A mapping that ``make`` builds once, at its first use."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Mapping[str, Json]]) -> None:
        self._make: Callable[[], Mapping[str, Json]] | None = make
        self._made: Mapping[str, Json] = {}

    def _build(self) -> Mapping[str, Json]:
        make = self._make
        if make is not None:
            self._made = make()
            self._make = None  # set after _made, so that another thread sees either the function or the complete result
        return self._made

    def __getitem__(self, key: str) -> Json:
        return self._build()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._build())

    def __len__(self) -> int:
        return len(self._build())

    def __repr__(self) -> str:
        return repr(self._build())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self._build()),)
