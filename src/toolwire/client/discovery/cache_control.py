"""Read what a response says about being kept."""

from __future__ import annotations

import re
from typing import Final

from toolwire.core.http import Response, get_header

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
