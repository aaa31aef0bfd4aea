"""Answer requests for the documents that a client looks for: GET and HEAD, with an ETag, for every caller."""
# XL-018

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

from toolwire.client.transport.in_process import takes_arguments
from toolwire.core.errors import DefinitionError
from toolwire.protocols.openapi.document import swagger_20
from toolwire.protocols.openapi.document.versions import Version, read_version

LLM: Final = "/.well-known/llm.json"
OPENAPI: Final = "/.well-known/openapi.json"
CATALOG: Final = "/.well-known/api-catalog"

_PARAMETERS: Final = {"ASGI": 3, "WSGI": 2}
JSON_TYPE: Final = "application/json"
LINKSET_TYPE: Final = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'


class DocumentAnswer(NamedTuple):
    """A response: status, headers and body."""

    status: int
    headers: dict[str, str]
    body: bytes


def check_app(app: object, interface: Literal["ASGI", "WSGI"]) -> None:
    """Check that ``app`` is an application of ``interface``, as far as its parameters tell.

    Raises:
        DefinitionError: it is not; the text names the function for the other kind.
    """
    other: Literal["ASGI", "WSGI"] = "WSGI" if interface == "ASGI" else "ASGI"
    if takes_arguments(app, _PARAMETERS[interface]):
        return
    hint = f"; for {other} there is toolwire.integrations.{other.lower()}"
    article = "an" if interface == "ASGI" else "a"
    text = f"publish_tools takes {article} {interface} application here, not {type(app).__name__}"
    raise DefinitionError(f"{text}{hint if takes_arguments(app, _PARAMETERS[other]) else ''}.")


def read_app_document(document: object, version: Version | None) -> dict[str, Any]:
    """Return the ``document`` of an application as OpenAPI 3.0 to 3.2. Swagger 2.0 is upgraded to 3.0.

    Raises:
        DefinitionError: it is no document, or it is older than ``version``, to which it cannot be converted.
    """
    if not isinstance(document, Mapping):
        raise DefinitionError(f"document must be an OpenAPI document as a dict, not {type(document).__name__}.")
    found = dict(document)
    if swagger_20.is_swagger(found):
        found, _ = swagger_20.upgrade(found)
    if not isinstance(found.get("paths", {} if "openapi" in found else None), Mapping):
        raise DefinitionError("document is not an OpenAPI document: it contains no paths.")
    if version in ("3.1", "3.2") and read_version(found) == "3.0":
        raise DefinitionError(f'The document uses OpenAPI 3.0. To keep 3.0, leave out openapi="{version}".')
    return found


def llm_json(document: Mapping[str, Any], place: str) -> bytes:
    """Return the llm.json that names ``place``, where ``document`` is."""
    return write_json({"openapi": place, "auth": sign_in(document)})


def build_documents(document: Mapping[str, Any], root: str = "", place: str = OPENAPI) -> dict[str, bytes]:
    """Return the document and the llm.json that names it at ``place``, below the path ``root``, by their paths."""
    if root and not document.get("servers"):
        document = {**document, "servers": [{"url": root}]}
    return {place: write_json(document), LLM: llm_json(document, root + place)}


def api_catalog(base: str, place: str) -> bytes:
    """Return the RFC 9727 catalog of one API, whose document is at ``place`` of the origin ``base``."""
    described = [{"href": base + place, "type": "application/json"}]
    return write_json({"linkset": [{"anchor": base + "/", "service-desc": described}]})


def answer(body: bytes, method: str, known: str, *, media_type: str = JSON_TYPE) -> DocumentAnswer:
    """Return how ``body`` is answered; ``known`` is the request's If-None-Match."""
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {
        "content-type": media_type,
        "etag": etag,
        "cache-control": "max-age=300",
        "access-control-allow-origin": "*",
    }
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    if etag in tags or "*" in tags:
        del headers["content-type"]
        return DocumentAnswer(304, headers, b"")
    headers["content-length"] = str(len(body))
    return DocumentAnswer(200, headers, b"" if method == "HEAD" else body)


def sign_in(document: Mapping[str, Any]) -> str:
    """Return the word of llm.json for how a caller signs in, by the document's ``securitySchemes``."""
    # XL-022
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, Mapping) else None
    kinds = (
        {one.get("type") for one in schemes.values() if isinstance(one, Mapping)}
        if isinstance(schemes, Mapping)
        else set()
    )
    if kinds & {"oauth2", "openIdConnect"}:
        return "oauth2"
    return "api-key" if kinds else "none"


def write_json(data: Any) -> bytes:
    """Return ``data`` as compact JSON."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


async def send_answer(found: DocumentAnswer, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    """Send ``found`` as the response of an ASGI application."""
    fields = [(name.encode(), value.encode()) for name, value in found.headers.items()]
    await send({"type": "http.response.start", "status": found.status, "headers": fields})
    await send({"type": "http.response.body", "body": found.body})
