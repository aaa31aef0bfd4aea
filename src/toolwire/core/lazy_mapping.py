"""Build mappings at their first use, so that a document of ten thousand tools is read without converting schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

_Data: TypeAlias = Mapping[str, Any]


class LazyMapping(Mapping[str, Any]):
    """A mapping that ``make`` builds once, at its first use."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], _Data]) -> None:
        self._make: Callable[[], _Data] | None = make
        self._made: _Data = {}

    def build(self) -> _Data:
        """Return the mapping that ``make`` returned."""
        make = self._make
        if make is not None:
            self._made = make()
            self._make = None  # set after _made, so that another thread sees either the function or the complete result
        return self._made

    def __getitem__(self, key: str) -> Any:
        return self.build()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.build())

    def __len__(self) -> int:
        return len(self.build())

    def __repr__(self) -> str:
        return repr(self.build())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self.build()),)


class LazyField:
    """A field of a class with slots: reading it builds a ``LazyMapping``, so what is read is a plain dict."""

    # RE-06: json.dumps writes dicts, and no other mappings.

    __slots__ = ("slot",)

    def __init__(self, slot: Any) -> None:
        self.slot: Any = slot

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = self.slot.__get__(instance, owner)
        return value.build() if type(value) is LazyMapping else value

    def __set__(self, instance: object, value: Any) -> None:
        self.slot.__set__(instance, value)
