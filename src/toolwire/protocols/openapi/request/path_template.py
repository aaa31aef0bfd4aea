"""Fill in the variables of a path template so that the path still leads to the same route.

Rules:
- A value in a path is never empty, and never decodes to a dot segment on any server.
- The path has as many segments as its template, with the same fixed text around each value.
"""
# CV-05, D-10

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

_VARIABLE = re.compile(r"\{([^{}/]*)\}")
_LITERAL = "/:@!$&'()*+,;=-._~%"
_CLEARLY_PLAIN = re.compile(r"[A-Za-z0-9_~,=-][A-Za-z0-9._~,=-]*")
_MAX_DECODINGS = 10


class _Segment(NamedTuple):
    """One segment with variables: ``texts`` are the fixed parts around ``names``, so there is one more of them."""

    texts: tuple[str, ...]
    names: tuple[str, ...]


def list_variables(path: str) -> list[str]:
    """Return the names in braces of a path template, in order."""
    return _VARIABLE.findall(path) if "{" in path else []


def is_template(path: str) -> bool:
    """Return whether ``path`` is a path whose braces all close within one segment."""
    fixed = _VARIABLE.sub("", path) if "{" in path else path
    return path.startswith("/") and "{" not in fixed and "}" not in fixed


def write_path(template: str, values: Mapping[str, tuple[str, str]], errors: dict[str, str]) -> str:
    """Return the path with its variables replaced; ``values`` has argument and text for each variable.

    A value that is not allowed in a path is added to ``errors``, by argument.
    """
    written: list[str] = []
    for segment in _split_segments(template):
        if isinstance(segment, str):
            written.append(segment)
            continue
        text = segment.texts[0]
        for name, after in zip(segment.names, segment.texts[1:], strict=True):
            argument, value = values.get(name, (name, ""))
            # "/users//posts" is another route on many servers, and "/users/" may list or delete them all.
            if not value:
                errors[argument] = "cannot be empty: it is a part of the path"
            text += value + after
        # The whole segment is checked, not each value: "." and "." from two variables are a dot segment together.
        if not _is_plain(text):
            errors.setdefault(values.get(segment.names[0], (segment.names[0], ""))[0], _CHANGES_PATH)
        written.append(text)
    return "/".join(written)


_CHANGES_PATH = "cannot be sent: it would change the path"


@lru_cache(maxsize=4096)
def _split_segments(template: str) -> tuple[str | _Segment, ...]:
    return tuple(map(_parse_segment, template.split("/")))


def _parse_segment(text: str) -> str | _Segment:
    parts = _VARIABLE.split(text)
    texts = tuple(quote(part, safe=_LITERAL) for part in parts[::2])
    return _Segment(texts, tuple(parts[1::2])) if len(parts) > 1 else texts[0]


def _is_plain(segment: str) -> bool:
    """Return whether a path segment stays one segment, even if a server decodes it repeatedly or cuts parameters."""
    if _CLEARLY_PLAIN.fullmatch(segment):
        return True
    if "/" in segment:
        return False
    # Proxies and servers decode once each, so "%252e" may become a dot behind the second one.
    for _ in range(_MAX_DECODINGS):
        for part in re.split(r"[/\\]", segment):
            # Some servers cut what follows a semicolon before they look for dot segments.
            if part.partition(";")[0].strip() in (".", ".."):
                return False
        if any(character < " " or character == "\x7f" for character in segment):
            return False
        decoded = unquote(segment)
        if decoded == segment:
            return True
        segment = decoded
    return False
