"""Decide which documents are stored for later commands, and how a stored one may be used.

Rules:
- Only what anyone gets is stored: a response with status 200 to a GET without credentials and without header fields of
  the user, whose URL has no secret. Never with ``no-store``, ``private`` or ``Vary: *``.
- A stored document is used if its server confirms it with status 304, or if the user wants to stay offline; nothing is
  called then. However fresh it is, the server is asked: a command that is run again shows a change of a minute ago.
- A server of plain http confirms nothing, because another program may have had its address: the document is fetched.
- A document that was fetched with other trusted certificates counts as another document.
"""
# SE-07

from __future__ import annotations

import json
import re
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

from toolwire.core.http import Request, Response, get_header
from toolwire.core.url_display import show_url
from toolwire.stores.document_files import DocumentFiles
from toolwire.stores.paths import NoHomeError, find_cache_folder

_VERSION: Final = 1
_MAX_HEAD_BYTES: Final = 64 * 1024
_DIGEST_CHARS: Final = 64
_FIELDS: Final = frozenset(
    (
        *(b"content-type", b"link", b"etag", b"last-modified"),
        *(b"cache-control", b"date", b"expires", b"vary"),
    )
)
"""The header fields that are stored: what a document means, and how it is confirmed."""
_OWN_FIELDS: Final = frozenset((b"accept",))
"""The header fields of a request for a document that anyone gets."""


class StoredDocument(NamedTuple):
    """A response that was stored, and when it was fetched or confirmed, in seconds since 1970."""

    response: Response
    fetched_at: float


class StoredDocuments:
    """The documents in ``files``, if there is a place. If ``offline``, they are used without asking their servers."""

    __slots__ = ("_files", "offline")

    def __init__(self, files: DocumentFiles | None, *, offline: bool = False) -> None:
        self._files = files
        self.offline: bool = offline

    def read(self, request: Request, trust: str) -> StoredDocument | None:
        """Return the stored response to ``request``, or None. ``trust`` stands for the certificates that are trusted.

        Without ``offline``, None also stands for a document that its server cannot confirm.
        """
        if self._files is None or not _is_for_anyone(request):
            return None
        if not self.offline and not request.url.startswith("https:"):
            return None
        data = self._files.read(_build_key(request, trust))
        stored = None if data is None else _read_document(data)
        if stored is None or self.offline:
            return stored
        headers = stored.response.headers
        return stored if get_header(headers, b"etag") or get_header(headers, b"last-modified") else None

    def write(self, request: Request, response: Response, trust: str, now: float) -> None:
        """Store ``response`` to ``request``, or delete what is stored if this one must not be."""
        if self._files is None or not _is_for_anyone(request):
            return
        if response.status != 200 or forbids_storing(response):
            self.remove(request, trust)
            return
        self._files.write(_build_key(request, trust), _write_document(response, now))

    def remove(self, request: Request, trust: str) -> None:
        """Delete the stored response to ``request``."""
        if self._files is not None:
            self._files.remove(_build_key(request, trust))


def open_stored_documents(folder: Path | None = None, *, offline: bool = False) -> StoredDocuments:
    """Return the documents that are stored in ``folder``.

    The default is the folder ``toolwire/documents`` in XDG_CACHE_HOME or ~/.cache. Without a home, none are stored.
    """
    if folder is None:
        try:
            folder = find_cache_folder() / "documents"
        except NoHomeError:  # RE-05
            return StoredDocuments(None, offline=offline)
    return StoredDocuments(DocumentFiles(folder), offline=offline)


def _is_for_anyone(request: Request) -> bool:
    """Return whether ``request`` is one that anyone could send, whose URL says nothing secret."""
    return (
        request.method == "GET"
        and request.url.startswith(("https:", "http:"))
        # D-26: what would be masked in a log is not stored either.
        and show_url(request.url) == request.url
        and not request.credentials
        and not request.body
        and all(name in _OWN_FIELDS for name, _ in request.headers)
    )


def _build_key(request: Request, trust: str) -> str:
    # The name of a file is a digest: who can list the folder learns no URL.
    fields = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in request.headers]
    return sha256(json.dumps([request.url, fields, trust]).encode()).hexdigest()


def _write_document(response: Response, now: float) -> bytes:
    fields = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in response.headers if name in _FIELDS]
    head = json.dumps({"version": _VERSION, "fetched_at": now, "headers": fields}).encode()
    text = head + b"\n" + response.body
    return sha256(text).hexdigest().encode() + b"\n" + text


def _read_document(data: bytes) -> StoredDocument | None:
    """Return the document in ``data``, or None if it is not what was written."""
    text = data[_DIGEST_CHARS + 1 :]
    if not data.startswith(sha256(text).hexdigest().encode() + b"\n"):
        return None
    end = text.find(b"\n", 0, _MAX_HEAD_BYTES)
    try:
        head: Any = json.loads(text[: max(end, 0)])
        if head["version"] != _VERSION:
            return None
        fetched_at = float(head["fetched_at"])
        fields = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in head["headers"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    if not isfinite(fetched_at) or any(name not in _FIELDS for name, _ in fields):
        return None
    return StoredDocument(Response(200, fields, text[end + 1 :]), fetched_at)


_DIRECTIVE: Final = re.compile(r"([A-Za-z-]+)(?:\s*=\s*(?:\"([^\"]*)\"|([^\s,;]+)))?")


def read_directives(response: Response) -> dict[str, str]:
    """Return the directives of ``Cache-Control`` and their values, by their names in lower case."""
    text = get_header(response.headers, b"cache-control")[:2_048]
    return {name.lower(): quoted or plain for name, quoted, plain in _DIRECTIVE.findall(text)}


def forbids_keeping(response: Response) -> bool:
    """Return whether no later request may get this response."""
    # "Vary: *" says that no later request gets the same response.
    return "no-store" in read_directives(response) or get_header(response.headers, b"vary").strip() == "*"


def forbids_storing(response: Response) -> bool:
    """Return whether this response must not be stored for later programs, which may have other credentials."""
    return forbids_keeping(response) or "private" in read_directives(response)
