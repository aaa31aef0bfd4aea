"""Read the security requirements of operations: alternatives, each a set of schemes that apply together.

Rules:
- A list means "or", an object "and"; ``{}`` and an empty list require no credential.
- The operation's list replaces the root's. Alternatives with fewer scopes come first, one without credential last.
- A parameter that a scheme fills is no argument.
"""
# CV-09, XL-118, CV-10

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from toolwire.core.model import Json
from toolwire.protocols.openapi.document.references import References
from toolwire.protocols.openapi.request.plan import Place, Scheme

Alternatives: TypeAlias = tuple[tuple[Scheme, ...], ...]

_KINDS = frozenset(("apiKey", "http", "mutualTLS", "oauth2", "openIdConnect"))
_NAMED_HERE = frozenset(("basic", "bearer", "digest"))
_CREDENTIALS = frozenset(("access_token", "api_key", "apikey", "oauth_token"))
_OAUTH_PARAMETERS = frozenset(("access_token", "key", "oauth_token", "token"))


class Security:
    """The security schemes of one document, and the requirements of its operations."""

    def __init__(self, references: References) -> None:
        document = references.document
        components = document.get("components")
        declared = components.get("securitySchemes") if isinstance(components, dict) else None
        self.schemes: dict[str, dict[str, Any]] = {
            id_: scheme
            for id_, node in (declared.items() if isinstance(declared, dict) else ())
            if (scheme := references.follow_or_empty(node)).get("type") in _KINDS
        }
        self._root = self._read(document.get("security"))
        self.covered: frozenset[tuple[str, str]] = frozenset(self._list_covered())

    def list_alternatives(self, operation: Mapping[str, Any]) -> Alternatives:
        """Return the alternatives of ``operation``."""
        return self._read(operation["security"]) if isinstance(operation.get("security"), list) else self._root

    def covers(self, place: str, name: str) -> bool:
        """Return whether a parameter is for a credential of a scheme of the document."""
        return bool(self.covered) and (place, name.lower() if place == Place.HEADER else name) in self.covered

    def _read(self, declared: Json) -> Alternatives:
        found = [
            tuple(self._read_scheme(id_, scopes) for id_, scopes in sorted(one.items()))
            for one in (declared if isinstance(declared, list) else ())
            if isinstance(one, dict)
        ]
        # Only empty alternatives: no credential is needed.
        if not any(found):
            return ()
        # Fewer scopes first: a call should use the credential that can do the least.
        return tuple(sorted(dict.fromkeys(found), key=lambda each: (not each, sum(len(one.scopes) for one in each))))

    def _read_scheme(self, id_: str, scopes: Json) -> Scheme:
        scheme = self.schemes.get(id_, {})
        place, name, word = scheme.get("in"), scheme.get("name"), scheme.get("scheme")
        return Scheme(
            id=id_,
            kind=scheme.get("type", ""),
            place=Place(place) if place in ("query", "header", "cookie") else None,
            name=name if isinstance(name, str) else "",
            # Names of schemes have no case (RFC 9110, 11.1), but a server can compare the exact text of its own.
            scheme="" if not isinstance(word, str) else word.lower() if word.lower() in _NAMED_HERE else word,
            scopes=tuple(sorted({one for one in scopes if isinstance(one, str)})) if isinstance(scopes, list) else (),
        )

    def _list_covered(self) -> set[tuple[str, str]]:
        """Return place and name of each parameter for a credential of the schemes.

        These are the names of API keys, and for schemes with tokens the usual names of token parameters.
        """
        found: set[tuple[str, str]] = set()
        for scheme in self.schemes.values():
            place, name = scheme.get("in"), scheme.get("name")
            if scheme.get("type") == "apiKey" and isinstance(place, str) and isinstance(name, str):
                found.add((place, name.lower() if place == Place.HEADER else name))
            elif scheme.get("type") != "mutualTLS":
                found.update(("query", one) for one in _CREDENTIALS)
            if scheme.get("type") in ("oauth2", "openIdConnect"):
                found.update((place, one) for one in _OAUTH_PARAMETERS for place in ("query", "header"))
        return found
