"""Find the JSON Pointer of a tool or field in the source document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolwire.core.catalog import Catalog
from toolwire.core.json_pointer import MISSING, join_pointer, resolve_pointer, take_steps
from toolwire.core.model import Json, Tool

from .document_kind import DocumentForm


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The document that a catalog came from: its kind, its text, and a pointer to each tool by ID."""

    kind: str
    text: str
    document: Json = field(repr=False)
    pointers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourcePointers:
    """Pointers into the source, which is of ``form``; without one, into the catalog as data."""

    catalog: Catalog
    source: Source | None = None
    form: DocumentForm | None = None

    def find_catalog_field(self, name: str) -> str:
        """Return where the source says ``name`` of all its tools."""
        if self.source is None:
            return join_pointer("", name)
        document = self.source.document
        paths = (["info", name], [name])
        return next((join_pointer("", *path) for path in paths if take_steps(document, path) is not MISSING), "")

    def find_tool_field(self, tool: Tool, name: str) -> str:
        """Return where the field ``name`` of ``tool`` stands, or the tool itself where it does not stand anywhere."""
        if self.source is None or self.form is None:
            return join_pointer("/tools", self.catalog.tools.index(tool), *([name] if name else []))
        where = self.source.pointers.get(tool.id, "")
        spot = where + self.form.field_pointers.get(name, "")
        return spot if resolve_pointer(self.source.document, spot) is not MISSING else where
