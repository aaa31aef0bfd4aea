"""Which tools of a server a person wants, said before it is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from .model import Json

DOCUMENT_BYTES: Final = 64 * 1024 * 1024
"""How large a document may be that describes tools, unless a selection says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to take of a document; empty means that it does not matter.

    ``include`` ``"declared"`` takes what the site offers to models, ``"all"`` every operation that the site does not
    hide from them. ``tags`` and ``methods`` match exactly, ``paths`` and ``names`` by ``*`` and ``?``. ``safe_only``
    takes what only reads; ``deprecated`` False leaves out what the site is about to end. ``elsewhere`` lets a document
    refer to other documents of its own site, and to files beside it. ``server`` is the URL to call instead of what
    the document names at its root, for a document that does not say. ``overlay`` is an OpenAPI Overlay, as data, that
    is applied to the document before it is read. A document of more than ``document_bytes`` bytes is refused; those
    that it refers to share that size.
    """

    # XL-009, XL-034, CV-25, CV-26

    include: str = "declared"
    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    safe_only: bool = False
    deprecated: bool = True
    elsewhere: bool = False
    server: str = ""
    overlay: Json = None
    document_bytes: int = DOCUMENT_BYTES

    def __post_init__(self) -> None:
        if self.include not in ("declared", "all"):
            raise ValueError(f'include is "declared" or "all", not {self.include!r}')
        if self.document_bytes < 1:
            raise ValueError(f"document_bytes is a number of bytes above 0, not {self.document_bytes!r}")
        object.__setattr__(self, "methods", tuple(method.upper() for method in self.methods))

    @property
    def is_narrowing(self) -> bool:
        """Whether anything that is there may be left out."""
        return bool(self.tags or self.paths or self.methods or self.names or self.safe_only or not self.deprecated)

    def matches(self, *, name: str, method: str, path: str, tags: frozenset[str], safe: bool, deprecated: bool) -> bool:
        """Return whether one operation is wanted."""
        return (
            (not self.tags or not tags.isdisjoint(self.tags))
            and (not self.methods or method.upper() in self.methods)
            and (not self.paths or any(fnmatchcase(path, one) for one in self.paths))
            and (not self.names or any(fnmatchcase(name, one) for one in self.names))
            and (safe or not self.safe_only)
            and (self.deprecated or not deprecated)
        )


DEFAULT_SELECTION = Selection()
"""Whatever the site offers."""
