"""Read the responses that an operation declares: the schema of a success, its media types, its links.

Rules:
- The success is an exact status, else 2XX, else default; its JSON schema is the output schema of the tool.
- A response that cannot be read counts as not declared: a tool works without it.
"""
# CV-24

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolwire.core.model import Json
from toolwire.protocols.openapi.document.references import References
from toolwire.protocols.openapi.request.media_types import get_essence, is_json
from toolwire.protocols.openapi.request.plan import ACCEPT

_SUCCESS = re.compile(r"2\d\d")
_CODE = re.compile(r"[1-5](?:\d\d|XX)|default")
_STREAMS = frozenset(
    (
        *("text/event-stream", "application/jsonl", "application/jsonlines", "application/x-jsonlines"),
        *("application/ndjson", "application/x-ndjson", "application/json-seq", "application/geo+json-seq"),
    )
)
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+*-]+/[a-z0-9!#$&^_.+*-]+")
_MAX_ACCEPTED = 8


class DeclaredResponses:
    """Reads the declared responses of the operations of one document."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._old = str(references.document.get("openapi")).startswith("3.0")

    def is_nothing(self, operation: dict[str, Any]) -> bool:
        """Return whether a success always returns null."""
        if self._old:  # where null is no type
            return False
        node = self.find_schema(operation)
        schema = self._references.follow_or_empty(node) if isinstance(node, dict) and "$ref" in node else node
        return isinstance(schema, dict) and schema.get("type") == "null"

    def find_schema(self, operation: dict[str, Any]) -> Json:
        """Return the schema of the JSON of a success, or None if none is declared."""
        content = self._find_success(operation)
        for kind, key in sorted((get_essence(key), key) for key in content):
            if is_json(kind):
                return self._references.follow_or_empty(content[key]).get("schema")
        for kind, key in sorted((get_essence(key), key) for key in content):
            item = self._references.follow_or_empty(content[key]).get("itemSchema") if kind in _STREAMS else None
            if item is not None:  # the result of a stream is the list of its items
                return {"type": "array", "items": item}
        return None

    def may_stream(self, operation: dict[str, Any]) -> bool:
        """Return whether a success may be a stream of items."""
        return any(get_essence(key) in _STREAMS for key in self._find_success(operation))

    def build_accept(self, operation: dict[str, Any]) -> str:
        """Return the Accept field: JSON first, then the declared types of a success, then any type."""
        kinds = dict.fromkeys(get_essence(key) for key in sorted(self._find_success(operation)))
        others = [kind for kind in kinds if _MEDIA_TYPE.fullmatch(kind) and kind not in ("application/json", "*/*")]
        if not others:
            return ACCEPT
        # Some vendors answer in full only if their own JSON type is accepted by name.
        json = [kind for kind in others if kind.endswith("+json")]
        accepted = (["application/json"] if "application/json" in kinds or not kinds else []) + json
        weak = [kind if not accepted else f"{kind};q=0.5" for kind in others if kind not in json]
        return ", ".join([*[*accepted, *weak][:_MAX_ACCEPTED], "*/*;q=0.1"])

    def list_schemas(self, operation: dict[str, Any]) -> Mapping[str, Mapping[str, Json]] | None:
        """Return the schema for each status and media type, unconverted; None if no response is declared."""
        responses = operation.get("responses")
        if not isinstance(responses, dict):
            return None
        found: dict[str, dict[str, Json]] = {}
        for status, node in responses.items():
            code = str(status).upper().replace("DEFAULT", "default")
            if _CODE.fullmatch(code):
                content = self._references.follow_or_empty(node).get("content")
                entries = content.items() if isinstance(content, dict) else ()
                found[code] = {
                    get_essence(key): _get_schema(self._references.follow_or_empty(one))
                    for key, one in entries
                    if isinstance(key, str)
                }
        return found or None

    def iterate_links(self, operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield each link of a success."""
        # CV-27
        links = self._find_response(operation).get("links")
        for _, link in sorted(links.items()) if isinstance(links, dict) else ():
            yield self._references.follow_or_empty(link)

    def _find_success(self, operation: dict[str, Any]) -> dict[str, Any]:
        content = self._find_response(operation).get("content")
        return content if isinstance(content, dict) else {}

    def _find_response(self, operation: dict[str, Any]) -> dict[str, Any]:
        responses = operation.get("responses")
        if not isinstance(responses, dict):
            return {}
        node = responses.get("200")
        # With a 200 and a 201 the lowest declared code is taken, which is the plain success.
        if node is None or "201" in responses:
            codes = sorted(code for code in responses if isinstance(code, str) and _SUCCESS.fullmatch(code))
            codes += [code for code in ("2XX", "2xx") if code in responses]
            node = responses.get(codes[0] if codes else "default")
        return self._references.follow_or_empty(node)


def _get_schema(media: Mapping[str, Json]) -> Json:
    """Return the schema of a media type; that of a stream is the list of its items."""
    return {"type": "array", "items": media["itemSchema"]} if "itemSchema" in media else media.get("schema", {})
