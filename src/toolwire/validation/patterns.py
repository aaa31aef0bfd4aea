"""Regular expressions of schemas: which of them can be used at all."""

from __future__ import annotations

from functools import lru_cache

import jsonschema_rs

MAX_CHARACTERS = 2_000


@lru_cache(maxsize=4_096)
def is_pattern(text: str) -> bool:
    """Return whether ``text`` is a regular expression that the validator takes, of at most 2,000 characters. [D-15]"""
    if len(text) > MAX_CHARACTERS:
        return False
    try:
        jsonschema_rs.Draft202012Validator({"pattern": text}, validate_formats=False)
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True
