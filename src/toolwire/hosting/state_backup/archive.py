"""Write a backup as one file that only this user can read, and read it back whole or not at all.

A backup is a tar archive. Its first member lists the size and SHA-256 of each other member, and the name of the first
member contains its own SHA-256. So damage anywhere is found before anything is restored.
"""
# PL-07

from __future__ import annotations

import io
import json
import os
import re
import secrets
import tarfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from toolwire import __version__
from toolwire.core.errors import DefinitionError

_FORMAT: Final = 1
_HEAD: Final = re.compile(r"toolwire-state-([0-9a-f]{64})\.json")
_MAX_HEAD_BYTES: Final = 64 << 20
_CHUNK: Final = 1 << 20
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class BackupHead(NamedTuple):
    """What a backup says of itself.

    ``kind`` is ``folder`` or ``postgresql``, ``made_at`` in seconds since 1970. ``parts`` holds the version of each
    part of the tables, ``columns`` those of each table of a database, ``files`` the size and digest of each member.
    """

    kind: str
    made_at: float
    toolwire: str
    parts: Mapping[str, int]
    columns: Mapping[str, list[str]]
    files: Mapping[str, tuple[int, str]]


def check_new_file(target: Path) -> None:
    """Check that a backup can be written to ``target``.

    Raises:
        DefinitionError: there is a file already, or no folder for it.
    """
    if os.path.lexists(target):
        raise DefinitionError(f"{target} already exists, and backups are never overwritten. Name a new file.")
    if not target.parent.is_dir():
        raise DefinitionError(f"Cannot write {target}: the folder {target.parent} does not exist.")


def write_archive(
    target: Path,
    files: Mapping[str, Path],
    *,
    kind: str,
    made_at: float,
    parts: Mapping[str, int],
    columns: Mapping[str, list[str]] | None = None,
) -> None:
    """Write the backup ``target``, which must not exist, with mode 0600. It gets its name when it is complete.

    Raises:
        DefinitionError: it cannot be written.
    """
    listed = {name: (file.stat().st_size, _digest_file(file)) for name, file in files.items()}
    head = BackupHead(kind, made_at, __version__, parts, columns or {}, listed)
    text = json.dumps({"format": _FORMAT, **head._asdict()}, indent=1).encode()
    new = target.with_name(f".{secrets.token_hex(8)}.backup")
    try:
        with os.fdopen(os.open(new, _CREATE, 0o600), "wb") as opened:
            with tarfile.open(fileobj=opened, mode="w", format=tarfile.PAX_FORMAT) as archive:
                _add(archive, f"toolwire-state-{sha256(text).hexdigest()}.json", len(text), io.BytesIO(text))
                for name, file in files.items():
                    with file.open("rb") as content:
                        _add(archive, name, listed[name][0], content)
            opened.flush()
            os.fsync(opened.fileno())
        os.link(new, target)  # fails if the name was taken meanwhile
    except FileExistsError:
        check_new_file(target)
        raise
    except OSError as error:
        raise DefinitionError(f"Cannot write {target}: {error.strerror or error}.") from error
    finally:
        new.unlink(missing_ok=True)


def read_archive(file: Path, check: Callable[[BackupHead], None], into: Path | None = None) -> BackupHead:
    """Return the head of the backup ``file``, after checking all of it. With ``into``, write its members there.

    ``check`` looks at the head before anything is written: it raises ValueError if a member is not one of a state.

    Raises:
        DefinitionError: it cannot be read, is damaged, is something else, or was made by a newer toolwire.
    """
    try:
        with _open_archive(file) as archive:
            members = iter(archive)
            head = _read_head(archive, next(members), file)
            check(head)
            left = dict(head.files)
            for member in members:
                size, digest = left.pop(member.name)
                content = archive.extractfile(member) if member.isreg() and member.size == size else None
                if content is None or _copy(content, None if into is None else into / member.name) != digest:
                    raise ValueError(member.name)
            if left:
                raise ValueError("members are missing")
    except FileNotFoundError as error:
        raise DefinitionError(f"File not found: {error.filename or file}.") from error
    except (
        tarfile.TarError,
        OSError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        StopIteration,
        RecursionError,
    ) as error:
        text = f"{file} is damaged or is not a state backup. Nothing was changed."
        raise DefinitionError(text) from error
    return head


@contextmanager
def _open_archive(file: Path) -> Generator[tarfile.TarFile]:
    with file.open("rb") as opened, tarfile.open(fileobj=opened, mode="r:") as archive:
        yield archive


def _read_head(archive: tarfile.TarFile, member: tarfile.TarInfo, file: Path) -> BackupHead:
    found = _HEAD.fullmatch(member.name)
    content = archive.extractfile(member) if found is not None and 0 < member.size <= _MAX_HEAD_BYTES else None
    if content is None or found is None:
        raise ValueError("no head")
    text = content.read()
    if not compare_digest(sha256(text).hexdigest(), found[1]):
        raise ValueError("another head")
    data: Any = json.loads(text)
    if data["format"] > _FORMAT:
        raise DefinitionError(f"{file} was made by a newer toolwire ({data['toolwire']}). Install that version.")
    files = {str(name): (int(size), str(digest)) for name, (size, digest) in data["files"].items()}
    parts = {str(name): int(version) for name, version in data["parts"].items()}
    columns = {str(name): [str(one) for one in names] for name, names in data["columns"].items()}
    return BackupHead(str(data["kind"]), float(data["made_at"]), str(data["toolwire"]), parts, columns, files)


def _add(archive: tarfile.TarFile, name: str, size: int, content: IO[bytes]) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    archive.addfile(member, content)


def _copy(content: IO[bytes], target: Path | None) -> str:
    """Return the SHA-256 of ``content``, after writing it to the new file ``target``."""
    digest = sha256()
    if target is not None:
        target.parent.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(os.open(target, _CREATE, 0o600), "wb") if target is not None else io.BytesIO() as written:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            if target is not None:
                written.write(chunk)
    return digest.hexdigest()


def _digest_file(file: Path) -> str:
    with file.open("rb") as content:
        return _copy(content, None)


def warn_if_readable(file: Path) -> str:
    """Return a warning if other users of the machine can read the backup ``file``, else an empty text."""
    with suppress(OSError):
        if file.stat().st_mode & 0o077:
            return f"Other users of this machine can open {file}, which contains secrets. Run chmod 600 {file}."
    return ""
