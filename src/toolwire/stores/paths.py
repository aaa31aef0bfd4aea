"""Find the folders of toolwire on the disk."""

from __future__ import annotations

import os
from pathlib import Path


def find_state_folder() -> Path:
    """Return the folder of the stored state of this user: below XDG_STATE_HOME or ~/.local/state."""
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if given.startswith("/") else Path.home() / ".local" / "state") / "toolwire"


def find_credentials_folder() -> Path:
    """Return the default folder of the stored credentials of this user."""
    return find_state_folder() / "credentials"
