"""Documents of tools from one sort to another, with every loss on the way.

Rules:
- Losses of reading are what a document says and a catalog has no place for; losses of writing are found by reading
  the written document back. What stands in a member of ours, exact, is not lost.
- Tools in are tools out or losses. What was converted and not edited since converts back to the same text.
- An embedded text counts only if it says the same tools as the document around it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsontext
from toolwire.protocols.openapi.document import loading

from . import compare_tools, extension
from .document_kind import Form, Sheet
from .extension import MAX_SOURCE_BYTES, Original
from .jsonschema import JSONSCHEMA
from .lists import OTC, OXP, UNIVERSAL
from .loss import Loss
from .mcp import MCP
from .merge_extension import beside, joined
from .openapi import OPENAPI
from .opentool import OPENTOOL
from .source_positions import Places, Source

_FORMS: Final = {form.kind: form for form in (OPENTOOL, OPENAPI, MCP, JSONSCHEMA, OXP, OTC, UNIVERSAL)}
KINDS: Final = tuple(_FORMS)
"""Every sort of document, in the order in which its shape is looked for."""

_MOST_STEPS_BACK: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a document was read as, and what of it was not."""

    catalog: Catalog
    source: Source
    losses: tuple[Loss, ...] = ()

    @property
    def kind(self) -> str:
        """The sort of the document."""
        return self.source.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A document, and what of the catalog is not in it."""

    document: Json
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A document, its text, and all that was lost on the way to it."""

    document: Json
    text: str
    losses: tuple[Loss, ...] = ()


def kind_of(data: Json) -> str | None:
    """Return the sort of document that ``data`` looks like, or None."""
    data = _payload(data)[0]
    return next((form.kind for form in _FORMS.values() if form.fits(data)), None)


def read(data: bytes | str | Json, kind: str | None = None) -> Read | Problem:
    """Return the catalog of a document, given as text, bytes or data, or a Problem that says why there is none.

    Raises:
        ValueError: there is no such ``kind``.
    """
    if kind is not None:
        _form(kind)
    loaded = _loaded(data)
    if isinstance(loaded, Problem):
        return loaded
    whole, text = loaded
    document, where = _payload(whole)
    form = _recognised(document, kind)
    if isinstance(form, Problem):
        return form
    sheet = form.read(document)
    if isinstance(sheet, Problem):
        return sheet
    meaning = joined(form, document, sheet)
    pointers = {entry.tool.id: where + entry.pointer for entry in meaning.entries}
    return Read(
        catalog=meaning.catalog,
        source=Source(kind=form.kind, text=text, document=whole, pointers=pointers),
        losses=tuple(loss._replace(pointer=where + loss.pointer) for loss in meaning.losses),
    )


def write(catalog: Catalog, kind: str, source: Source | None = None) -> Written:
    """Return ``catalog`` as a document; losses point into ``source``, or else into the catalog as data.

    With a ``source`` its text, up to 1 MiB, is embedded where the document has room.

    Raises:
        ValueError: there is no such ``kind``.
    """
    form = _form(kind)
    document = form.write(catalog)
    if form.carries:
        document = extension.put(document, form.room, beside(form, _sheet(form, document), catalog))
    back = joined(form, document, _sheet(form, document))
    places = Places(catalog, source, None if source is None else _form(source.kind))
    found = {entry.label: entry.tool for entry in back.entries}
    losses = [
        *compare_tools.about_losses(catalog, back.catalog, places.about),
        *compare_tools.tool_losses(catalog, form.labels(catalog), found, places.of),
    ]
    if source is not None and form.room:
        document, too_large = _with_source(form, document, source)
        losses += too_large
    return Written(document=document, losses=tuple(losses))


def convert(data: bytes | str | Json | Catalog, to: str, kind: str | None = None) -> Converted | Problem:
    """Return ``data``, a document or a catalog, as a document of the sort ``to``, or a Problem: it cannot be read.

    A document that was made from one of this sort, and not edited since, gives the text of that one back.

    Raises:
        ValueError: there is no such ``kind`` or ``to``.
    """
    _form(to)
    if isinstance(data, Catalog):
        written = write(data, to)
        return Converted(document=written.document, text=_pretty(written.document), losses=written.losses)
    found = read(data, kind)
    if isinstance(found, Problem):
        return found
    before = _before(found, to)
    if before is not None:
        return Converted(document=before.document, text=before.text)
    written = write(found.catalog, to, found.source)
    losses = (*found.losses, *written.losses)
    return Converted(document=written.document, text=_pretty(written.document), losses=losses)


def _form(kind: str) -> Form:
    if kind not in _FORMS:
        raise ValueError(f"there is no kind {kind!r}: it is one of {', '.join(KINDS)}")
    return _FORMS[kind]


def _sheet(form: Form, document: Json) -> Sheet:
    sheet = form.read(document)
    if isinstance(sheet, Problem):
        raise AssertionError(f"what was written as {form.kind} is not read: {sheet.message}")  # a bug of ours
    return sheet


def _loaded(data: bytes | str | Json) -> tuple[Json, str] | Problem:
    """Return the data, and its text: the one it was read from, or else one that says it."""
    if not isinstance(data, bytes | str):
        return data, jsontext.write(data).decode()
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    loaded = loading.read(raw).data
    return loaded if isinstance(loaded, Problem) else (loaded, raw.decode("utf-8", "replace"))


def _payload(data: Json) -> tuple[Json, str]:
    """Return the document itself and its pointer, where ``data`` is a JSON-RPC answer with one in it."""
    match data:
        case {"jsonrpc": "2.0", "result": dict(result)}:
            return result, "/result"
        case _:
            return data, ""


def _recognised(document: Json, kind: str | None) -> Form | Problem:
    kind = kind_of(document) if kind is None else kind
    if kind is None:
        message = f"This is no document of tools that is known here: it is none of {', '.join(KINDS)}."
        return Problem(kind=Kind.MALFORMED, message=message)
    form = _form(kind)
    if form.fits(document):
        return form
    return Problem(kind=Kind.MALFORMED, message=f"This is no document of the kind {kind}.")


def _before(found: Read, kind: str) -> Source | None:
    """Return the document of the sort ``kind`` that was ``found``, or that it was made from, step by step back."""
    for _ in range(_MOST_STEPS_BACK):
        if found.kind == kind:
            return found.source
        original = extension.embedded(_payload(found.source.document)[0], _form(found.kind).room)
        if original is None or original.kind not in _FORMS:
            return None
        earlier = read(original.text, original.kind)
        if isinstance(earlier, Problem) or not _gives(earlier.catalog, found):
            return None
        found = earlier
    return None


def _gives(catalog: Catalog, found: Read) -> bool:
    """Return whether ``catalog`` gives the tools that were ``found``: whoever embeds a text can embed any."""
    again = read(write(catalog, found.kind).document, found.kind)
    return isinstance(again, Read) and again.catalog == found.catalog


def _with_source(form: Form, document: Json, source: Source) -> tuple[Json, list[Loss]]:
    if len(source.text.encode()) > MAX_SOURCE_BYTES:
        text = f"the text itself: it is larger than {MAX_SOURCE_BYTES:,} bytes, and is not embedded"
        return document, [Loss("", text, "what was read of it")]
    return extension.embed(document, form.room, Original(source.kind, source.text)), []


def _pretty(document: Json) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
