"""Convert documents of tools from one kind to another, with a list of all losses.

Rules:
- A loss of reading is something in a document that a catalog has no place for. Losses of writing are found by reading
  the written document back. What our own member of the document holds exactly is not lost.
- Each tool is converted or listed as a loss. A converted document that was not edited converts back to the same text.
- An embedded source text is used only if it gives the same tools as the document around it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json, Kind, Problem, Tool, copy_tool
from toolwire.framing import jsontext
from toolwire.protocols.openapi.document import loading

from . import compare_tools, extension
from .document_kind import DocumentContent, DocumentForm
from .extension import MAX_SOURCE_BYTES, SourceText
from .lists import OTC, OXP, UNIVERSAL
from .loss import Loss
from .mcp import MCP
from .merge_extension import build_extension, merge_extension
from .openapi import OPENAPI
from .opentool import OPENTOOL
from .source_positions import Source, SourcePointers

_FORMS: Final = {form.kind: form for form in (OPENTOOL, OPENAPI, MCP, OXP, OTC, UNIVERSAL)}
KINDS: Final = tuple(_FORMS)
"""All kinds of documents, in the order in which they are tried."""

_MAX_STEPS_BACK: Final = 8

MAX_GROWTH: Final = 64
"""How many times as many bytes as its source a document may have; ``MIN_ROOM`` is allowed to the smallest."""

MIN_ROOM: Final = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDocument:
    """The catalog that was read from a document, and the parts that could not be read."""

    catalog: Catalog
    source: Source
    losses: tuple[Loss, ...] = ()

    @property
    def kind(self) -> str:
        """The kind of the document."""
        return self.source.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDocument:
    """A written document, and the parts of the catalog that it cannot contain."""

    document: Json
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedDocument:
    """A converted document, its text, and everything that the conversion lost."""

    document: Json
    text: str
    losses: tuple[Loss, ...] = ()


def detect_kind(data: Json) -> str | None:
    """Return the kind of document that ``data`` appears to be, or None."""
    data = _extract_payload(data)[0]
    return next((form.kind for form in _FORMS.values() if form.fits(data)), None)


def read(data: bytes | str | Json, kind: str | None = None) -> ReadDocument | Problem:
    """Return the catalog of a document (text, bytes or data), or a Problem that says why it cannot be read.

    Raises:
        ValueError: ``kind`` is unknown.
    """
    if kind is not None:
        _get_form(kind)
    loaded = _load_data(data)
    if isinstance(loaded, Problem):
        return loaded
    whole, text = loaded
    document, where = _extract_payload(whole)
    form = _choose_form(document, kind)
    if isinstance(form, Problem):
        return form
    sheet = form.read(document)
    if isinstance(sheet, Problem):
        return sheet
    meaning = merge_extension(form, document, sheet)
    pointers = {entry.tool.id: where + entry.pointer for entry in meaning.entries}
    # A document that says nothing of permissions means the same as one that allows none (docs/decisions/0981).
    tools = tuple(
        copy_tool(tool, blanket_allowed=False) if tool.blanket_allowed is None else tool
        for tool in meaning.catalog.tools
    )
    return ReadDocument(
        catalog=replace(meaning.catalog, tools=tools),
        source=Source(kind=form.kind, text=text, document=whole, pointers=pointers),
        losses=tuple(loss._replace(pointer=where + loss.pointer) for loss in meaning.losses),
    )


def write(catalog: Catalog, kind: str, source: Source | None = None) -> WrittenDocument:
    """Return ``catalog`` as a document. Losses point into ``source``, or else into the catalog as data.

    With a ``source``, its text is embedded if the format allows that, up to 1 MiB.

    Raises:
        ValueError: ``kind`` is unknown.
    """
    form = _get_form(kind)
    document = form.write(catalog)
    if form.keeps_exact_values:
        document = extension.set_extension(
            document, form.extension_path, build_extension(form, _read_sheet(form, document), catalog)
        )
    back = merge_extension(form, document, _read_sheet(form, document))
    places = SourcePointers(catalog, source, None if source is None else _get_form(source.kind))
    found = {entry.label: entry.tool for entry in back.entries}
    losses = [
        *compare_tools.list_catalog_losses(catalog, back.catalog, places.find_catalog_field),
        *compare_tools.list_tool_losses(catalog, form.label_tools(catalog), found, places.find_tool_field),
    ]
    if source is not None and form.extension_path:
        document, too_large = _embed_source(form, document, source)
        losses += too_large
    return WrittenDocument(document=document, losses=tuple(losses))


def convert(data: bytes | str | Json | Catalog, to: str, kind: str | None = None) -> ConvertedDocument | Problem:
    """Convert ``data``, a document or a catalog, and return it as a document of the kind ``to``.

    If you convert an unedited document back, you get the original text. A Problem means that ``data`` cannot be read,
    or that the output would be many times larger.

    Raises:
        ValueError: ``kind`` or ``to`` is unknown.
    """
    _get_form(to)
    if isinstance(data, Catalog):
        problem = _check_growth(data, to, sum(map(_measure_schemas, data.tools)))
        if problem is not None:
            return problem
        written = write(data, to)
        return ConvertedDocument(document=written.document, text=_format_json(written.document), losses=written.losses)
    found = read(data, kind)
    if isinstance(found, Problem):
        return found
    before = _find_earlier(found, to)
    if before is not None:
        return ConvertedDocument(document=before.document, text=before.text)
    problem = _check_growth(found.catalog, to, len(found.source.text))
    if problem is not None:
        return problem
    catalog, claims = (found.catalog, ()) if to != OPENAPI.kind else _drop_claims(found)
    written = write(catalog, to, found.source)
    losses = (*found.losses, *claims, *written.losses)
    return ConvertedDocument(document=written.document, text=_format_json(written.document), losses=losses)


def _drop_claims(found: ReadDocument) -> tuple[Catalog, tuple[Loss, ...]]:
    """Return the catalog with no tool as safe that only its document calls so, and a loss for each of these.

    A GET is sent without a question, and programs that only look at a site send it too. Anyone may have
    written the document, so its claim does not make an operation a GET; the method GET of an OpenAPI document does.
    """
    places = SourcePointers(found.catalog, found.source, _get_form(found.kind))
    pointers = found.source.pointers
    claimed = [tool for tool in found.catalog.tools if tool.safe and not pointers[tool.id].endswith("/get")]
    losses = tuple(
        Loss(places.find_tool_field(tool, "safe"), f"the claim that {tool.id} only reads", "a POST") for tool in claimed
    )
    ids = {tool.id for tool in claimed}
    tools = (replace(tool, safe=False) if tool.id in ids else tool for tool in found.catalog.tools)
    return replace(found.catalog, tools=tuple(tools)), losses


def _check_growth(catalog: Catalog, kind: str, size: int) -> Problem | None:
    """Return a Problem where ``catalog``, written as ``kind``, is too much for a source of ``size`` bytes.

    Each tool is written alone, and none after the first that is too much.
    """
    # D-17: a page of definitions that a thousand operations share is written a thousand times in most kinds.
    form = _get_form(kind)
    left = most = MIN_ROOM + MAX_GROWTH * size
    for count, tool in enumerate(catalog.tools, 1):
        left -= len(jsontext.write(form.write(replace(catalog, tools=(tool,)))))
        if left < 0:
            message = (
                f"The first {count:,} of {len(catalog.tools):,} tools have more than {most:,} bytes as "
                f"{kind}, which is too much for a source of this size. Convert fewer tools at a time, for "
                "example with --match."
            )
            return Problem(kind=Kind.TOO_LARGE, message=message)
    return None


def _measure_schemas(tool: Tool) -> int:
    return sum(len(jsontext.write(dict(schema))) for schema in (tool.input_schema, tool.output_schema or {}))


def _get_form(kind: str) -> DocumentForm:
    if kind not in _FORMS:
        raise ValueError(f"unknown kind {kind!r}: it must be one of {', '.join(KINDS)}")
    return _FORMS[kind]


def _read_sheet(form: DocumentForm, document: Json) -> DocumentContent:
    sheet = form.read(document)
    if isinstance(sheet, Problem):
        raise AssertionError(f"cannot read the converted {form.kind} document: {sheet.message}")  # a bug of ours
    return sheet


def _load_data(data: bytes | str | Json) -> tuple[Json, str] | Problem:
    """Return the data, and its text: the one it was read from, or else one that says it."""
    if not isinstance(data, bytes | str):
        return data, jsontext.write(data).decode()
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    loaded = loading.read_data(raw).data
    return loaded if isinstance(loaded, Problem) else (loaded, raw.decode("utf-8", "replace"))


def _extract_payload(data: Json) -> tuple[Json, str]:
    """Return the document itself and its pointer, where ``data`` is a JSON-RPC answer with one in it."""
    match data:
        case {"jsonrpc": "2.0", "result": dict(result)}:
            return result, "/result"
        case _:
            return data, ""


def _choose_form(document: Json, kind: str | None) -> DocumentForm | Problem:
    kind = detect_kind(document) if kind is None else kind
    if kind is None:
        message = f"Unknown document type. It must be one of {', '.join(KINDS)}."
        return Problem(kind=Kind.MALFORMED, message=message)
    form = _get_form(kind)
    if form.fits(document):
        return form
    return Problem(kind=Kind.MALFORMED, message=f"This is not a {kind} document.")


def _find_earlier(found: ReadDocument, kind: str) -> Source | None:
    """Return the document of the sort ``kind`` that was ``found``, or that it was made from, step by step back."""
    for _ in range(_MAX_STEPS_BACK):
        if found.kind == kind:
            return found.source
        original = extension.find_source(
            _extract_payload(found.source.document)[0], _get_form(found.kind).extension_path
        )
        if original is None or original.kind not in _FORMS:
            return None
        earlier = read(original.text, original.kind)
        if isinstance(earlier, Problem) or not _has_same_tools(earlier, found):
            return None
        found = earlier
    return None


def _has_same_tools(earlier: ReadDocument, found: ReadDocument) -> bool:
    """Return whether ``earlier`` gives the tools that were ``found``: an embedded text can be any text."""
    catalog = _drop_claims(earlier)[0] if found.kind == OPENAPI.kind else earlier.catalog
    again = read(write(catalog, found.kind).document, found.kind)
    return isinstance(again, ReadDocument) and again.catalog == found.catalog


def _embed_source(form: DocumentForm, document: Json, source: Source) -> tuple[Json, list[Loss]]:
    if len(source.text.encode()) > MAX_SOURCE_BYTES:
        text = f"the text itself: it is larger than {MAX_SOURCE_BYTES:,} bytes, and is not embedded"
        return document, [Loss("", text, "what was read of it")]
    return extension.embed_source(document, form.extension_path, SourceText(source.kind, source.text)), []


def _format_json(document: Json) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
