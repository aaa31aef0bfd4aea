"""Where an operation is: the server URL that holds for it, which must be on the origin of the document."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from toolwire.core.model import Json

from .references import Unusable

_PORTS = {"http": 80, "https": 443}
_AUTHORITY = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{0,5}))?")
_PATH = re.compile(r"[!-\[\]-~]*")  # visible ASCII without the backslash
_VARIABLE = re.compile(r"\{([^{}]*)\}")


def origin(url: str) -> str | None:
    """Return scheme, host and port of an http or https URL in one spelling, or None for anything else."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    authority = _AUTHORITY.fullmatch(parts.netloc)
    if parts.scheme not in _PORTS or authority is None:
        return None
    port = int(authority["port"] or _PORTS[parts.scheme])
    shown = "" if port == _PORTS[parts.scheme] else f":{port}"
    return f"{parts.scheme}://{authority['host'].lower()}{shown}"


def join(base: str, reference: str) -> str | None:
    """Return ``reference`` resolved against ``base``, without a fragment, or None where that is no URL."""
    try:
        return urljoin(base, reference.strip()).partition("#")[0]
    except ValueError:
        return None


def server(url: str, *declared: Json) -> str:
    """Return the URL an operation's path is put after, from the first of ``declared`` that lists servers.

    ``url`` is the document's; ``declared`` are the ``servers`` of operation, path and document. Of several the
    first on the document's own origin holds. [CV-08, D-07]

    Raises:
        Unusable: every one of them is on another origin, or none can be read.
    """
    home, elsewhere = origin(url) or "", ""
    for one in next((one for one in declared if isinstance(one, list) and one), [{"url": "/"}]):
        target = _resolved(url, one) if isinstance(one, dict) else None
        where = origin(target) if target is not None else None
        if target is None or where is None:
            continue
        path = urlsplit(target).path.rstrip("/")
        if where != home:
            elsewhere = elsewhere or where
        elif _PATH.fullmatch(path) is not None:
            return home + path
    if elsewhere:
        raise Unusable(f"its server is {elsewhere[:200]}, not {home}, where the document came from")
    raise Unusable("none of its server URLs can be read")


def _resolved(url: str, one: dict[str, Any]) -> str | None:
    template, variables = one.get("url"), one.get("variables")
    if not isinstance(template, str):
        return None
    known = variables if isinstance(variables, dict) else {}
    defaults = {name: each.get("default") for name, each in known.items() if isinstance(each, dict)}
    missing = [name for name in _VARIABLE.findall(template) if not isinstance(defaults.get(name), str)]
    return None if missing else join(url, _VARIABLE.sub(lambda found: str(defaults[found[1]]), template))
