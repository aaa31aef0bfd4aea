"""Write the result of a call to a file that the user named: whole or not at all.

Rules:
- The name is the user's. What a site calls its file is never used.
- That the file can be written is checked before the call is made, because a call cannot be taken back.
"""
# FU-17

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from toolwire.core.content import Audio, File, Image, has_content, is_reference, read_content
from toolwire.core.errors import UsageError
from toolwire.core.model import Json
from toolwire.core.resources import Resource

from .terminal.screen import json_text

STANDARD_OUTPUT: Final = "-"


class Output(NamedTuple):
    """What is written: bytes with their media type."""

    data: bytes
    media_type: str


class OutputFile:
    """The file of ``--output``, or of another ``option``; ``-`` is standard output.

    A device or a pipe is written to, as nothing of it can be lost.
    """

    def __init__(self, name: str, *, replace: bool = False, option: str = "--output") -> None:
        """Check that the file can be written; ``replace`` allows that it exists.

        Raises:
            UsageError: it cannot be written.
        """
        self.name = name
        self._replace = replace
        self._path = Path(name)
        self._is_stream = False
        if name == STANDARD_OUTPUT:
            return
        if self._path.is_dir():
            raise UsageError(f"{name} is a folder. Give {option} a file name.")
        self._is_stream = self._path.exists() and not self._path.is_file()
        if self._is_stream:
            return
        if not self._path.parent.is_dir():
            raise UsageError(f"Cannot write {name}: the folder {self._path.parent} does not exist.")
        if not os.access(self._path.parent, os.W_OK):
            raise UsageError(f"Cannot write {name}: the folder {self._path.parent} is not writable.")
        if os.path.lexists(name) and not replace:
            raise self._build_taken()

    def write(self, output: Output) -> None:
        """Write the bytes.

        Raises:
            UsageError: they cannot be written; then the file is as it was.
        """
        if self.name == STANDARD_OUTPUT:
            sys.stdout.flush()
            sys.stdout.buffer.write(output.data)
            sys.stdout.buffer.flush()
            return
        if self._is_stream:
            try:
                with self._path.open("wb") as stream:
                    stream.write(output.data)
            except OSError as error:
                raise UsageError(f"{self.name} cannot be written: {error.strerror}.") from error
            return
        part = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                file.write(output.data)
            if self._replace:
                part.replace(self._path)
            else:
                os.link(part, self._path)  # unlike a rename, it leaves a file alone that came meanwhile
        except FileExistsError as error:
            raise self._build_taken() from error
        except OSError as error:
            raise UsageError(f"{self.name} cannot be written: {error.strerror}.") from error
        finally:
            part.unlink(missing_ok=True)

    def _build_taken(self) -> UsageError:
        return UsageError(f"{self.name} already exists. Name another file, or use --force to replace it.")


def find_output(value: Json, find_resource: Callable[[str], Resource | None]) -> Output | str:
    """Return what of ``value`` is written to a file, or a sentence why nothing is.

    That is the content of an image, a sound or a file, the bytes of a handle, a text, or any other value as JSON.
    ``find_resource`` returns the bytes of a handle.
    """
    found = read_content(value) if has_content(value) else value
    contents = [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, (File, Image, Audio))]
    if len(contents) > 1:
        kinds = ", ".join(one.media_type for one in contents)
        return f"the result has {len(contents)} files ({kinds}), and --output takes one"
    if contents:
        return Output(contents[0].data, contents[0].media_type)
    if is_reference(value):
        resource = find_resource(str(value.get("resource", "")))
        return "there was no room to keep its bytes" if resource is None else Output(resource.data, resource.media_type)
    if isinstance(value, str):
        return Output(value.encode("utf-8", "surrogatepass"), "text/plain")
    return Output(f"{json_text(value, indent=2)}\n".encode(), "application/json")
