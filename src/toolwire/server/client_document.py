"""The document that says who toolwire is to authorization servers, as an answer of this application. [XL-113]"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from toolwire.auth.client_identity import resolve_document_url, write_document
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.framing import jsontext

_KEPT = (b"cache-control", b"public, max-age=3600")


def client_documents(url: str) -> Mapping[str, Response]:
    """Return the document for ``url`` by its path. Addresses of this machine are for development.

    Raises:
        DefinitionError: no authorization server would take a document from there.
    """
    address = resolve_document_url(url, loopback=True)
    return {urlsplit(address).path: Response(200, (*JSON_HEADERS, _KEPT), jsontext.write(write_document(address)))}
