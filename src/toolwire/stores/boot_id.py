"""Name this run of the machine, because its monotonic clock begins again with each run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def read_boot_id() -> str:
    """Return the id of this run of the machine, or ``""`` if the system has none."""
    with suppress(OSError):
        return _BOOT.read_text(encoding="ascii").strip()
    return ""
