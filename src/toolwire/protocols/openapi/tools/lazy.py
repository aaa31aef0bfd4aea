"""Mappings that are made when they are first looked at: a document of ten thousand tools is read without any schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolwire.core.model import Json


class LazyMapping(Mapping[str, Json]):
    """A mapping that ``make`` gives, once, when somebody looks into it; it is then like any other."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Mapping[str, Json]]) -> None:
        self._make: Callable[[], Mapping[str, Json]] | None = make
        self._made: Mapping[str, Json] = {}

    def _build(self) -> Mapping[str, Json]:
        make = self._make
        if make is not None:
            self._made = make()
            self._make = None  # after _made: another thread sees either the way to make it, or all of it
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
