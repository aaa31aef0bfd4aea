"""Where on a disk things are kept."""

from __future__ import annotations

import os
from pathlib import Path


def find_state_folder() -> Path:
    """Return where toolwire keeps what it must remember for this user: below XDG_STATE_HOME or ~/.local/state."""
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if given.startswith("/") else Path.home() / ".local" / "state") / "toolwire"


def find_credentials_folder() -> Path:
    """Return where the credentials of whoever signed in are kept, unless they say otherwise."""
    return find_state_folder() / "credentials"
