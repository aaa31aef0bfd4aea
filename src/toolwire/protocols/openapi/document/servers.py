"""Choose the server URL of an operation, with its variables filled in when the document is read.

Rules:
- The servers of the operation win over those of the path, and those over the root's; the default is ``/``.
- Of several servers, one on the document's origin is preferred, then https, then the order.
- No argument of a call can choose a server: variables have their defaults.
"""
# CV-08, D-07

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from toolwire.core.model import Json
from toolwire.core.url_origin import get_origin, has_same_origin, read_origin

from .references import Unusable

_PATH = re.compile(r"[!-\[\]-~]*")  # visible ASCII without the backslash
_VARIABLE = re.compile(r"\{([^{}]*)\}")


class Server(NamedTuple):
    """A server: the URL before each path, the declared template, and the values of its variables."""

    base: str
    template: str = ""
    variables: Mapping[str, str] = {}


def join_url(base: str, reference: str) -> str | None:
    """Return ``reference`` resolved against ``base``, without fragment, or None if the result is no URL."""
    try:
        return urljoin(base, reference.strip()).partition("#")[0]
    except ValueError:
        return None


def is_beside(other: str, url: str) -> bool:
    """Return whether ``other`` is on the origin of ``url``, or for a file in its folder or below it."""
    if url.startswith("file:///"):
        folder = url.rpartition("/")[0] + "/"
        # A dot segment, plain or percent-encoded, could lead out of the folder.
        return other.startswith(folder) and "/../" not in other and "%" not in other
    return has_same_origin(other, url)


def choose_server(url: str, *declared: Json) -> Server:
    """Return the server of an operation, from the first of ``declared`` that lists any.

    ``url`` is the document's; ``declared`` are the ``servers`` of operation, path and document. The user decides, by
    ``allow_origins``, whether a server on another origin than the document is called.

    Raises:
        Unusable: no server has a usable URL.
    """
    # CV-08, D-07
    home = get_origin(url)
    found: list[Server] = []
    for one in next((one for one in declared if isinstance(one, list) and one), [{"url": "/"}]):
        resolved = _resolve_server(url, one) if isinstance(one, dict) else None
        if resolved is not None:
            found.append(resolved)
    if not found:
        raise Unusable(_explain_no_server(declared))
    ranked = sorted(found, key=lambda one: (get_origin(one.base) != home, not one.base.startswith("https:")))
    return ranked[0]


def _explain_no_server(declared: tuple[Json, ...]) -> str:
    """Return the reason why no server in ``declared`` can be called."""
    listed = next((one for one in declared if isinstance(one, list) and one), [])
    for one in listed:
        for name in list_unfilled_variables(one):
            url = str(one.get("url"))[:100]
            return (
                f"the variable {name[:50]!r} of its server {url!r} has no default: say which to call with --server URL"
            )
    return "none of its server URLs can be read: say which to call with --server URL"


def list_unfilled_variables(one: Json) -> list[str]:
    """Return the names of the variables of a server that have neither a default nor an enum."""
    template, variables = (one.get("url"), one.get("variables")) if isinstance(one, dict) else (None, None)
    if not isinstance(template, str):
        return []
    known = variables if isinstance(variables, dict) else {}
    values = {name: known.get(name) for name in _VARIABLE.findall(template)}
    return [name for name, each in values.items() if _fill_variable(each if isinstance(each, dict) else {}) is None]


def _resolve_server(url: str, one: dict[str, Any]) -> Server | None:
    template, variables = one.get("url"), one.get("variables")
    if not isinstance(template, str):
        return None
    known = (
        {name: each for name, each in variables.items() if isinstance(each, dict)}
        if isinstance(variables, dict)
        else {}
    )
    values = {name: _fill_variable(known.get(name, {})) for name in _VARIABLE.findall(template)}
    if any(value is None for value in values.values()):
        return None
    filled = join_url(url, _VARIABLE.sub(lambda found: str(values[found[1]]), template))
    origin = read_origin(filled) if filled is not None else None
    # A name and password in the URL would be sent with each call, and shown in each question.
    if filled is None or origin is None or origin.has_user_info:
        return None
    path = urlsplit(filled).path.rstrip("/")
    texts = {name: str(value) for name, value in values.items()}
    # Anything but visible ASCII could be read as another path by a proxy.
    return Server(f"{origin}{path}", template, texts) if _PATH.fullmatch(path) is not None else None


def _fill_variable(variable: dict[str, Any]) -> str | None:
    """Return the value of a server variable: its default, else the first value of its enum."""
    # CV-32
    default, enum = variable.get("default"), variable.get("enum")
    if isinstance(default, str | int | float) and not isinstance(default, bool):
        return str(default)
    first = enum[0] if isinstance(enum, list) and enum else None
    return first if isinstance(first, str) else None
