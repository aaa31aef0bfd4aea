"""Check that a document and the code it describes agree: each difference is one sentence.

What can be checked depends on the code. A class with a method for each function is checked whole, both ways; one
with ``call`` alone hides its functions in it, and only that ``call`` can be called is checked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from toolwire.core.catalog import Catalog
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Schema, Tool
from toolwire.define import Function, Toolkit
from toolwire.protocols.opentool import schema
from toolwire.protocols.opentool.narrow_schema import Walk

from .description import Given, describe

OWN = frozenset({"call", "load", "init", "dispose", "stream_call"})
"""The methods of a Tool that are no functions of it."""


def check_against(tool: object, document: Given) -> tuple[str, ...]:
    """Return every mismatch between ``document`` and the object ``tool``. Empty if they match.

    Raises:
        DefinitionError: the document cannot be read.
    """
    description = describe(document)
    call = getattr(tool, "call", None)
    if callable(call):
        return tuple(_check_call(call, type(tool).__name__))
    names = {one.name: description.methods.get(one.name, one.name) for one in description.catalog.tools}
    return tuple(_check_methods(tool, description.catalog, names))


def has_call(tool: object) -> bool:
    """Return whether ``tool`` has a ``call`` of its own, rather than a method for each function."""
    return callable(getattr(tool, "call", None))


def list_methods(tool: object) -> Mapping[str, Callable[..., Any]]:
    """Return the public methods of ``tool`` by name, without those every Tool has."""
    found = {
        name: getattr(tool, name)
        for name, member in inspect.getmembers_static(type(tool))
        if not name.startswith("_") and name not in OWN and _is_method(member)
    }
    return {name: method for name, method in found.items() if callable(method)}


def get_method_name(name: str) -> str:
    """Return the method that stands for the function ``name``: dashes are underscores in Python."""
    return name.replace("-", "_").replace(".", "_")


def _is_method(member: object) -> bool:
    return inspect.isfunction(member) or isinstance(member, staticmethod | classmethod)


def _check_call(call: Callable[..., Any], owner: str) -> Iterator[str]:
    try:
        inspect.signature(call).bind("name", {})
    except TypeError:
        yield f"call() of {owner} must take a name and its arguments, as in call(self, name, arguments)."


def _check_methods(tool: object, catalog: Catalog, names: Mapping[str, str]) -> Iterator[str]:
    owner, methods = type(tool).__name__, list_methods(tool)
    wanted = {get_method_name(names[one.name]): one for one in catalog.tools}
    for name, one in wanted.items():
        if name not in methods:
            yield f"The document defines the function {names[one.name]!r}, but {owner} has no method {name}()."
            continue
        try:
            function = Toolkit(owner).add(methods[name])
        except DefinitionError as error:
            yield str(error)
            continue
        yield from _check_parameters(f"{owner}.{name}()", one, function)
    for name in _list_extra(methods, wanted):
        text = "write it into the document, or begin its name with an underscore"
        yield f"{owner} has the method {name}(), but the document defines no function {name!r}: {text}."


def _list_extra(methods: Iterable[str], wanted: Iterable[str]) -> list[str]:
    return sorted(set(methods) - set(wanted))


def _check_parameters(where: str, described: Tool, function: Function) -> Iterator[str]:
    tool = function.tool
    ours, theirs = tool.parameters, described.parameters
    needed, given = frozenset(tool.required_parameters), frozenset(described.required_parameters)
    for name, described_schema in theirs.items():
        if name not in ours:
            yield f"{where} has no parameter {name!r}, but the document defines it."
        elif text := _compare_types(described_schema, ours[name], described, tool):
            yield f"{where}: the parameter {name!r} is {text}."
    for name in ours:
        if name not in theirs and name in needed:
            yield f"{where} requires the parameter {name!r}, but the document does not define it."
        elif name in needed and name not in given:
            yield f"{where} requires the parameter {name!r}, which is optional in the document. Give it a default."


def _compare_types(described: Schema, taken: Schema, document: Tool, code: Tool) -> str:
    """Return how two types differ, as far as OpenTool's six types say; a type that says nothing fits any."""
    if not _states_type(described) or not _states_type(taken):
        return ""
    one = schema.write(described, Walk(document.input_schema))["type"]
    other = schema.write(taken, Walk(code.input_schema))["type"]
    if one == other or (one, other) == ("integer", "number"):
        return ""
    return f"of the type {one} in the document, and {other} in the code"


def _states_type(one: Schema) -> bool:
    return bool({"type", "$ref", "anyOf", "enum", "const"} & set(one))
