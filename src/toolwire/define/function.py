"""A Python function as a tool: what it offers, how to call it, and the way in and out of its types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.catalog import NAME
from ..core.errors import DefinitionError
from ..core.model import Tool
from .conversion import Read, Write, reader, writer
from .docstring import Docstring, read_docstring, sentence
from .options import Options, read_options, read_version
from .schema import argument, input_schema, output_schema, type_adapter
from .signature import FunctionKind, Names, Parameter, by_keyword, described, read_signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A tool of this process.

    ``call`` takes what ``read`` returns, plus the Context under ``context_parameter`` where that is not None. What
    it gives depends on ``kind``: the result, an awaitable of it, or a sync or async iterator whose items each go
    through ``write``. ``inline`` says that a sync function needs no thread of its own.
    """

    tool: Tool
    call: Callable[..., Any]
    read: Read
    write: Write
    kind: FunctionKind
    inline: bool = False
    context_parameter: str | None = None


def define(function: Callable[..., Any], options: Options, *, toolkit: str, version: str, names: Names) -> Function:
    """Return ``function`` as a tool of ``toolkit``; ``version`` is what a tool has that does not give its own.

    Raises:
        DefinitionError: the function or an option cannot be described; the sentence says which and what to do.
    """
    name = options.get("name") or getattr(described(function), "__name__", "")
    if name == "__call__":
        name = type(function).__name__
    where = f"{name}()"
    facts = read_options(options, where)
    _check_name(name)
    signature = read_signature(function, names, where)
    docstring = _docstring(function)
    arguments = [argument(parameter, where) for parameter in signature.parameters]
    result = type_adapter(signature.returns, f"{where}: its result", "serialization")
    inline = options.get("inline", False)
    if inline and signature.kind in (FunctionKind.ASYNC, FunctionKind.ASYNC_GENERATOR):
        raise DefinitionError(f"{where} is async and runs on the event loop anyway: leave out inline.")
    tool = Tool(
        name=name,
        toolkit=toolkit,
        version=read_version(options.get("version", version), where),
        description=options.get("description", "").strip() or docstring.description or sentence(name),
        input_schema=input_schema(arguments, _texts(signature.parameters, docstring)),
        output_schema=output_schema(result, docstring.returns, streams=signature.kind.streams),
        streams=signature.kind.streams,
        **facts,
    )
    return Function(
        tool=tool,
        call=by_keyword(function),
        read=reader(arguments),
        write=writer(result, name),
        kind=signature.kind,
        inline=inline,
        context_parameter=signature.context,
    )


def _check_name(name: str) -> None:
    if name == "<lambda>":
        raise DefinitionError("A lambda has no name: write a def, or give name=.")
    if NAME.fullmatch(name) is None:
        raise DefinitionError(f"A tool cannot be called {name!r}: use 1 to 64 letters, digits, '_' and '-'.")


def _docstring(function: Callable[..., Any]) -> Docstring:
    text = inspect.getdoc(described(function))
    if text is None and not inspect.isroutine(function):
        text = inspect.getdoc(type(function))
    return read_docstring(text or "")


def _texts(parameters: tuple[Parameter, ...], docstring: Docstring) -> Mapping[str, str]:
    return {each.name: docstring.parameters.get(each.name) or sentence(each.name) for each in parameters}
