"""Check whether the user trusts a ``toolwire.toml``. A cloned folder can contain one that runs code or sends secrets.

Rules:
- A trusted file is identified by its path and its exact text. A different text needs a new approval.
- The user's own file needs no yes. ``TOOLWIRE_SETTINGS=trust`` stands for it where nobody can be asked, as in a
  container or a CI job.
"""
# FU-40, AT-40

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from toolwire.core.errors import DefinitionError
from toolwire.stores.consent.agreed_digests import open_trusted_settings
from toolwire.stores.paths import find_state_folder

SETTINGS_VARIABLE: Final = "TOOLWIRE_SETTINGS"

AskTrust: TypeAlias = Callable[[Path, Sequence[str], str], bool]
"""Shows a file's lines with a warning, and returns whether the user wants to use it."""


def digest_file(path: Path, data: bytes) -> str:
    """Return the digest that identifies a trusted file. It depends on the path and the exact text."""
    return hashlib.sha256(str(path).encode() + b"\0" + data).hexdigest()


def is_trusted(digest: str) -> bool:
    """Return whether the user trusts the file with this digest."""
    if os.environ.get(SETTINGS_VARIABLE, "") == "trust":
        return True
    try:
        return open_trusted_settings(find_state_folder()).has(digest)
    except DefinitionError:  # another user could have written it, so it is not this user's approval
        return False
