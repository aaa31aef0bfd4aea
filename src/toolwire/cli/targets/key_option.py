"""Read a key from the command line or from a variable of the environment."""

from __future__ import annotations

import os

from toolwire.cli.exits import UsageError
from toolwire.core.model import Secret


def read_key(key: str | None, key_env: str | None) -> Secret | None:
    """Return the key of the options, if there is one.

    Raises:
        UsageError: a header cannot carry it, or the environment has no variable of that name.
    """
    if key_env is not None:
        key = os.environ.get(key_env)
        if key is None:
            raise UsageError(f"The environment has no variable {key_env} to take the key from.")
    if key is None:
        return None
    if not (key.isascii() and key.isprintable() and key.strip()):
        raise UsageError("The key is empty, or has a character in it that keys do not have.")
    return Secret(key.strip())
