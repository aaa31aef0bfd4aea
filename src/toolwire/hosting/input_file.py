"""Read a file that the user named, up to a size limit."""

from __future__ import annotations

from pathlib import Path

from toolwire.core.errors import UsageError


def read_input_file(path: Path, most: int, name: str) -> bytes:
    """Return the bytes of the file at ``path``, at most ``most``. Errors call the file ``name``.

    Raises:
        UsageError: the file cannot be read, or is larger.
    """
    try:
        with path.open("rb") as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}.") from error
    return check_input_size(data, most, name)


def check_input_size(data: bytes, most: int, name: str) -> bytes:
    """Return ``data`` if it has at most ``most`` bytes.

    Raises:
        UsageError: ``data`` is larger.
    """
    if len(data) > most:
        raise UsageError(f"{name} is larger than {most:,} bytes.")
    return data
