"""Regular expressions of schemas: which of them can be used at all."""

from __future__ import annotations

from functools import lru_cache

import jsonschema_rs

from .regex_size import regex_size

MAX_CHARACTERS = 2_000
_MAX_STATES = 400_000


@lru_cache(maxsize=4_096)
def is_pattern(text: str) -> bool:
    """Return whether ``text`` is a regular expression that the validator takes, and neither long nor large. [D-15]

    At most 2,000 characters, and 400,000 states once its repeats are written out.
    """
    if len(text) > MAX_CHARACTERS or regex_size(text).states > _MAX_STATES:
        return False
    try:
        jsonschema_rs.Draft202012Validator({"pattern": text}, validate_formats=False)
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True
