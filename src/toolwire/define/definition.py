"""Define a tool from a Python callable and options, and refuse what cannot be described."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from toolwire.core.catalog import NAME
from toolwire.core.errors import DefinitionError
from toolwire.core.json_pointer import parse_pointer
from toolwire.core.model import Condition, Tool

from .conversion import build_reader, build_writer
from .docstring import read_docstring
from .function import Function
from .function_kind import FunctionKind
from .options import Options, read_options, read_version
from .schema import build_argument, build_input_schema, build_output_schema, build_result_form
from .signature import (
    LocalNames,
    accept_keywords,
    get_function_docstring,
    get_function_name,
    read_signature,
)


def define_function(
    function: Callable[..., Any], options: Options, *, toolkit: str, version: str, names: LocalNames
) -> Function:
    """Return ``function`` as a tool of ``toolkit``. ``version`` is for a tool that has no version of its own.

    Raises:
        DefinitionError: the function or an option cannot be described; the sentence says which and what to do.
    """
    name = options.get("name", get_function_name(function))
    where = f"{name}()"
    facts = read_options(options, where)
    _check_name(name)
    signature = read_signature(function, names, where)
    docstring = read_docstring(get_function_docstring(function))
    arguments = [build_argument(parameter, where) for parameter in signature.parameters]
    result = build_result_form(signature.returns, where)
    _check_ask_when(facts["ask_when"], {one.name for one in signature.parameters}, where)
    tool = Tool(
        name=name,
        toolkit=toolkit,
        version=read_version(options.get("version", version), where),
        description=options.get("description", "").strip() or docstring.description,
        input_schema=build_input_schema(arguments, docstring.parameters),
        output_schema=build_output_schema(result, docstring.returns, streams=signature.kind.streams),
        streams=signature.kind.streams,
        reports=signature.context is not None,
        **facts,
    )
    return Function(
        tool=tool,
        call=accept_keywords(function),
        read=build_reader(arguments),
        write=build_writer(result, name),
        kind=signature.kind,
        inline=_read_inline(options, signature.kind, where),
        context_parameter=signature.context,
        dependencies=signature.dependencies,
        declares_safe=options.get("safe") is True,
    )


def _check_name(name: str) -> None:
    if name == "<lambda>":
        raise DefinitionError("A lambda has no name. Use a def, or pass name=.")
    if NAME.fullmatch(name) is None:
        raise DefinitionError(f"Invalid tool name {name!r}: use 1 to 64 letters, digits, '_' and '-'.")


def _check_ask_when(conditions: Sequence[Condition], names: Collection[str], where: str) -> None:
    # CC-01: a condition on an argument that does not exist would make every call one to ask about.
    for one in conditions:
        name = parse_pointer(one.pointer)[0]
        if name not in names:
            raise DefinitionError(f"{where}: ask_when refers to {one.pointer!r}, but there is no argument {name!r}.")


def _read_inline(options: Options, kind: FunctionKind, where: str) -> bool:
    inline = options.get("inline", False)
    if inline and kind in (FunctionKind.ASYNC, FunctionKind.ASYNC_GENERATOR):
        raise DefinitionError(f"{where} is async and always runs on the event loop. Leave out inline.")
    return inline
