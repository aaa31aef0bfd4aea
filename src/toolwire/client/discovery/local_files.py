"""Read documents on this machine for discovery, from one folder only."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from toolwire.client.transport.failures import unreachable
from toolwire.core.http import Response
from toolwire.core.model import Problem
from toolwire.core.selection import DOCUMENT_BYTES

DOCUMENT_SUFFIXES = (".json", ".yaml", ".yml")


def names_document_file(text: str) -> bool:
    """Return whether ``text`` can only mean a document in a file; ``example.com/openapi.json`` may be a URL."""
    if "://" in text or not text.lower().endswith(DOCUMENT_SUFFIXES):
        return False
    return "/" not in text or text.startswith(("/", "./", "../"))


def file_url(text: str) -> str:
    """Return the ``file:`` URL of the document at the path ``text``, or ``""`` if there is none.

    A file with another ending, or none, is a document if its first lines say so.
    """
    if "://" in text or "\0" in text:
        return ""
    path = Path(text)
    try:
        if not path.is_file() or not (text.lower().endswith(DOCUMENT_SUFFIXES) or _begins_like_a_document(path)):
            return ""
    except OSError:  # longer than any name of a file, or not readable
        return ""
    return path.resolve().as_uri()


def _begins_like_a_document(path: Path) -> bool:
    # FU-51
    if path.suffix == ".py":
        return False
    with path.open("rb") as file:
        return _VERSION_MEMBER.search(file.read(_START_BYTES)) is not None


_START_BYTES = 4_096
_VERSION_MEMBER = re.compile(rb"""(?:^|[{,])\s*["']?(?:openapi|swagger)["']?\s*:\s*["']?[0-9]""", re.MULTILINE)


def find_folder(url: str) -> Path | None:
    """Return the folder of the document at a ``file:`` URL, or None for any other URL."""
    return _path(url).parent if url.startswith("file:///") else None


def read_file(url: str, folder: Path | None, most: int = DOCUMENT_BYTES) -> Response | Problem:
    """Return the file at ``url`` as a response, or the Problem that it is outside ``folder`` or cannot be read."""
    path = _path(url)
    try:
        # A symbolic link may lead out of the folder, so the check is made on the resolved path.
        resolved = path.resolve(strict=True)
        if folder is None or not resolved.is_relative_to(folder.resolve()):
            return unreachable(f"{path.name} is not in the folder of the document, and is not read", "file", sent=False)
        if resolved.stat().st_size > most:
            how = "Selection(document_bytes=...) or --document-bytes takes more"
            return unreachable(f"{path.name} is larger than {most:,} bytes; {how}", "file", sent=False)
        return Response(200, (), resolved.read_bytes())
    except (OSError, ValueError):
        return unreachable(f"{path.name} cannot be read", "file", sent=False)


def _path(url: str) -> Path:
    from urllib.request import url2pathname  # loads an HTTP client, for the rare file

    return Path(url2pathname(urlsplit(url).path))
