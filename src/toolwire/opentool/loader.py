"""Load documents from text, bytes or a file, by the name that the SDKs use."""

from __future__ import annotations

from pathlib import Path

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Problem
from toolwire.protocols.opentool.objects import OpenTool, read_text


class OpenToolJsonLoader:
    """Loads OpenTool documents of any version. It has no state; there is a class because the SDKs have one."""

    # OT-031

    def load(self, text: str | bytes) -> OpenTool:
        """Return the document in a JSON text.

        Raises:
            DefinitionError: it is no document; the text says what is wrong.
        """
        document = read_text(text)
        if isinstance(document, Problem):
            raise DefinitionError(document.message)
        return document

    def load_from_file(self, path: Path | str) -> OpenTool:
        """Return the document in a file.

        Raises:
            DefinitionError: the file cannot be read, or holds no document; the text says which and why.
        """
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise DefinitionError(f"The document {path} cannot be read: {error.strerror}.") from error
        try:
            return self.load(text)
        except DefinitionError as error:
            raise DefinitionError(f"{path}: {error}") from error

    loadFromFile = load_from_file
