"""From a Python callable and its author's options to a Function, in one pass, with every refusal on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolwire.core.catalog import NAME
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Tool

from .conversion import reader, writer
from .docstring import read_docstring
from .function import Function
from .options import Options, read_options, read_version
from .schema import argument, input_schema, output_schema, result_form
from .signature import FunctionKind, Names, by_keyword, own_name, own_text, read_signature


def define(function: Callable[..., Any], options: Options, *, toolkit: str, version: str, names: Names) -> Function:
    """Return ``function`` as a tool of ``toolkit``; ``version`` is what a tool has that does not give its own.

    Raises:
        DefinitionError: the function or an option cannot be described; the sentence says which and what to do.
    """
    name = options.get("name", own_name(function))
    where = f"{name}()"
    facts = read_options(options, where)
    _check_name(name)
    signature = read_signature(function, names, where)
    docstring = read_docstring(own_text(function))
    arguments = [argument(parameter, where) for parameter in signature.parameters]
    result = result_form(signature.returns, where)
    tool = Tool(
        name=name,
        toolkit=toolkit,
        version=read_version(options.get("version", version), where),
        description=options.get("description", "").strip() or docstring.description,
        input_schema=input_schema(arguments, docstring.parameters),
        output_schema=output_schema(result, docstring.returns, streams=signature.kind.streams),
        streams=signature.kind.streams,
        reports=signature.context is not None,
        **facts,
    )
    return Function(
        tool=tool,
        call=by_keyword(function),
        read=reader(arguments),
        write=writer(result, name),
        kind=signature.kind,
        inline=_inline(options, signature.kind, where),
        context_parameter=signature.context,
    )


def _check_name(name: str) -> None:
    if name == "<lambda>":
        raise DefinitionError("A lambda has no name: write a def, or give name=.")
    if NAME.fullmatch(name) is None:
        raise DefinitionError(f"A tool cannot be called {name!r}: use 1 to 64 letters, digits, '_' and '-'.")


def _inline(options: Options, kind: FunctionKind, where: str) -> bool:
    inline = options.get("inline", False)
    if inline and kind in (FunctionKind.ASYNC, FunctionKind.ASYNC_GENERATOR):
        raise DefinitionError(f"{where} is async and runs on the event loop anyway: leave out inline.")
    return inline
