"""Select which tools of a server are wanted, before the server is asked."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from .model import Json

DOCUMENT_BYTES: Final = 64 * 1024 * 1024
"""The default limit for the size of a document that describes tools, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects tools of a document. An empty field does not restrict anything.

    - ``include``: ``"declared"`` selects what the server offers to models. ``"all"`` selects every operation that it
      does not hide from them.
    - ``tags``, ``methods``: exact matches.
    - ``paths``, ``names``: patterns with ``*`` and ``?``.
    - ``safe_only``: select only tools that only read.
    - ``deprecated``: ``False`` excludes deprecated tools.
    - ``elsewhere``: follow references to other documents of the same server, and to files beside the document.
    - ``server``: the URL to call, instead of the one in the document.
    - ``overlay``: an OpenAPI Overlay, as data. It is applied before the document is read.
    - ``any_version``: accept an ``x-llm`` of a later major version. Each call then needs consent.
    - ``document_bytes``: the largest document to read, in bytes, including the documents that it refers to.
    """

    # XL-009, XL-034, OQ-3, CV-25, CV-26

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
    any_version: bool = False
    document_bytes: int = DOCUMENT_BYTES

    def __post_init__(self) -> None:
        if self.include not in ("declared", "all"):
            raise ValueError(f'include must be "declared" or "all", not {self.include!r}')
        if self.document_bytes < 1:
            raise ValueError(f"document_bytes must be a number of bytes above 0, not {self.document_bytes!r}")
        object.__setattr__(self, "methods", tuple(method.upper() for method in self.methods))

    @property
    def is_narrowing(self) -> bool:
        """Whether the selection can exclude a tool."""
        return bool(self.tags or self.paths or self.methods or self.names or self.safe_only or not self.deprecated)

    def matches(self, *, name: str, method: str, path: str, tags: frozenset[str], safe: bool, deprecated: bool) -> bool:
        """Return whether the selection includes this operation."""
        return (
            (not self.tags or not tags.isdisjoint(self.tags))
            and (not self.methods or method.upper() in self.methods)
            and (not self.paths or any(fnmatchcase(path, one) for one in self.paths))
            and (not self.names or any(fnmatchcase(name, one) for one in self.names))
            and (safe or not self.safe_only)
            and (self.deprecated or not deprecated)
        )


DEFAULT_SELECTION = Selection()
"""Everything that the site offers to models."""
