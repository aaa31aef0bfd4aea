"""Read what a tool offers, from a document beside it or from its own ``load``."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from toolwire.core.catalog import Catalog
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext
from toolwire.protocols.opentool import document, objects, quirks
from toolwire.protocols.opentool.objects import OpenTool, read_text

_log = logging.getLogger("toolwire")

Given: TypeAlias = OpenTool | Mapping[str, Json] | Path | str
"""A document: the object, its JSON data, or the path of its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A catalog, the wire name of each function whose own is another, and the document they were read from."""

    catalog: Catalog
    methods: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Json] | None = None


def describe(given: Given | None, *, version: str = "1.0.0", title: str = "Tools") -> Description:
    """Return what the document ``given`` describes; ``version`` and ``title`` are those of a tool without one.

    Raises:
        DefinitionError: the document cannot be read, or is none; the sentence says why.
    """
    if given is None:
        return Description(catalog=Catalog(title=title, version=version))
    data = quirks.mend(_read_data(given), quirks.DOCUMENT)
    read = document.read(data)
    if isinstance(read, Problem):
        raise DefinitionError(read.message)
    for note in read.notes:
        _log.warning("the document %r: %s", read.catalog.title, note)
    return Description(catalog=read.catalog, methods=read.methods, data=data)


def load_description(tool: Any) -> Given | None:
    """Return what the ``load`` of ``tool`` gives, None where it has none; a coroutine is run to its end.

    Raises:
        DefinitionError: it fails; the sentence says how.
    """
    load = getattr(tool, "load", None)
    if load is None:
        return None
    try:
        loaded = load()
        found: Given | None = _await_result(loaded) if inspect.isawaitable(loaded) else loaded
    except Exception as error:
        text = f"load() of {type(tool).__name__} failed: {type(error).__name__}: {error}"
        raise DefinitionError(text.rstrip(".") + ".") from error
    return found


def _await_result(loaded: Awaitable[Any]) -> Any:
    """Return what ``loaded`` comes to, in a loop of its own: a tool may be made inside a running one."""

    async def finish() -> Any:
        return await loaded

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, finish()).result()


def _read_data(given: Given) -> Json:
    if isinstance(given, OpenTool):
        return objects.write(given)
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, str | Path):
        raise DefinitionError(f"A document must be an OpenTool, its JSON data or a path, not {type(given).__name__}.")
    try:
        data = jsontext.read(Path(given).read_bytes())
    except OSError as error:
        raise DefinitionError(f"Cannot read the document {given}: {error.strerror}.") from error
    if isinstance(data, Problem):
        raise DefinitionError(f"Cannot read the document {given}: {data.message}")
    return data


class OpenToolJsonLoader:
    """Loads OpenTool documents of any version. It is a class because the other SDKs have one."""

    # OT-031

    def load(self, text: str | bytes) -> OpenTool:
        """Return the document in a JSON text.

        Raises:
            DefinitionError: the text is not a document. The message says what is wrong.
        """
        document = read_text(text)
        if isinstance(document, Problem):
            raise DefinitionError(document.message)
        return document

    def load_from_file(self, path: Path | str) -> OpenTool:
        """Return the document in a file.

        Raises:
            DefinitionError: the file cannot be read, or is not a document. The message says which, and why.
        """
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise DefinitionError(f"Cannot read the document {path}: {error.strerror}.") from error
        try:
            return self.load(text)
        except DefinitionError as error:
            raise DefinitionError(f"{path}: {error}") from error

    loadFromFile = load_from_file


Returned: TypeAlias = Mapping[str, Json]
Loaded: TypeAlias = OpenTool | Mapping[str, Json] | None


class Tool(Protocol):
    """A tool to serve: ``call`` runs a function, and ``load`` returns the document. Both can be coroutines.

    These methods are optional, as in the newer SDKs. ``init()`` is awaited before the first call, and ``dispose()``
    after the last one. ``stream_call(name, arguments)`` is a generator, synchronous or not, for functions whose
    document has ``stream``. It yields the pieces of the result.
    """

    # OTRPC-020, OTRPC-021, A-11

    def call(self, name: str, arguments: dict[str, Any], /) -> Returned | Awaitable[Returned]:
        """Return the result of the function ``name``, an object.

        Raises:
            FunctionNotSupportedException: the function is unknown.
            InvalidArgumentsException: the arguments are not valid.
            ToolBreakException: the tool cannot continue. The caller gets this message, but no other exception's.
        """
        ...

    def load(self) -> Loaded | Awaitable[Loaded]:
        """Return the document, or None. Without a document, every function name can be called."""
        # OTRPC-021
        ...
