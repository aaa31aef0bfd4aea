"""Tell which site's page sent a request, by what its browser says."""
# D-22

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from toolwire.core.url_origin import has_same_origin

FormOrigin: TypeAlias = Literal["same_site", "cross_site", "unknown"]
"""A page of this server, a page of another site, or a client that does not say it: no browser of today is silent."""


def find_form_origin(fields: Mapping[bytes, bytes], base: str = "") -> FormOrigin:
    """Return who sent the request with these header fields.

    ``base`` is the URL by which browsers know this server; without it, ``Host`` tells that.
    """
    # A page cannot set this field, and a proxy that changes Host does not make it wrong.
    site = fields.get(b"sec-fetch-site")
    if site is not None:
        return "same_site" if site in (b"same-origin", b"none") else "cross_site"
    if b"origin" not in fields:
        return "unknown"
    origin = fields[b"origin"].decode("latin-1")
    # With the scheme of the page: a proxy in front may take https and pass http on.
    own = base or f"{origin.partition('://')[0]}://{fields.get(b'host', b'').decode('latin-1')}"
    return "same_site" if has_same_origin(origin, own) else "cross_site"
