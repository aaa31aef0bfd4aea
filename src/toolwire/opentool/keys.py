"""Read the API keys of a server from options, the environment or a file. No message contains a key."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from toolwire.core.errors import DefinitionError

API_KEYS = "TOOLWIRE_API_KEYS"
ADMIN_KEY = "TOOLWIRE_ADMIN_KEY"
_MAX_BYTES = 16 << 20


def read_keys(
    given: Iterable[str] = (),
    file: Path | str | None = None,
    environment: Mapping[str, str] = os.environ,
    variable: str = API_KEYS,
) -> tuple[str, ...]:
    """Return the keys of the options, of ``variable`` (commas between them) and of the file (one a line), each once.

    Raises:
        DefinitionError: the file cannot be read or has no key, or a key is none that a header can carry.
    """
    keys = [*given, *(key for key in environment.get(variable, "").split(",") if key.strip())]
    if file is not None:
        keys += _read_keys_file(Path(file))
    keys = [key.strip() for key in keys]
    if not all(key and key.isascii() and key.isprintable() for key in keys):
        raise DefinitionError("An API key is empty or contains an invalid character.")
    return tuple(dict.fromkeys(keys))


def _read_keys_file(file: Path) -> Sequence[str]:
    try:
        with file.open("rb") as opened:  # some files have no end
            data = opened.read(_MAX_BYTES + 1)
        lines = data.decode().splitlines()
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DefinitionError(f"Cannot read the keys from {file}: {why}.") from error
    if len(data) > _MAX_BYTES:
        raise DefinitionError(f"Cannot read the keys from {file}: the file is larger than {_MAX_BYTES:,} bytes.")
    keys = [line for line in lines if line.strip() and not line.startswith("#")]
    if not keys:
        raise DefinitionError(f"{file} contains no key. Write one key per line.")
    return keys
