"""Read and compare resource indicators (RFC 8707): the URL of the server that a token is for."""

from __future__ import annotations

import re

from .request_parameters import OAuthError

_RESOURCE = re.compile(r"(?:https?)://[!$%&'()*+,./0-9:;=?@A-Z_a-z~\[\]-]{1,2000}")


def canonical_uri(uri: str) -> str:
    """Return ``uri`` as it is compared and sent: without a slash at its end."""
    # AC-07
    return uri.rstrip("/")


def read_resource(given: tuple[str, ...], ours: str) -> str | OAuthError:
    """Return the resource a token is asked for: ``ours``, which is also meant where none is named."""
    # AS-08
    for uri in given:
        if _RESOURCE.fullmatch(uri) is None:
            return invalid_target("resource must be an absolute URL without a fragment.")
        if canonical_uri(uri) != canonical_uri(ours):
            return invalid_target("This server does not offer that resource.")
    return canonical_uri(ours)


def invalid_target(description: str) -> OAuthError:
    """Return the error of a resource."""
    return OAuthError(error="invalid_target", description=description)


def is_covered_by(resource: str, url: str) -> bool:
    """Return whether ``url`` is the resource, or below it: same origin, and a path that begins with its path."""
    base = canonical_uri(resource)
    return url == base or url.startswith((base + "/", base + "?"))
