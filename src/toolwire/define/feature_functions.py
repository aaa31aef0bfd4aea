"""Define a resource or a prompt from a Python function."""
# MC-08

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypedDict

from toolwire.core.content import UNTYPED, build_form
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Result, Value
from toolwire.core.server_features import (
    FeatureKind,
    PromptDefinition,
    ResourceDefinition,
    is_prompt_text,
    name_reader_toolkit,
)
from toolwire.core.uri_template import UriTemplate

from .definition import define_function
from .function import Function
from .signature import LocalNames, get_function_name

_READING: Final = {"safe": True, "approval": "auto"}


class ReaderOptions(TypedDict, total=False):
    """The options of ``@resource`` and ``@prompt``; all may be left out.

    ``name`` and ``description`` come from the function otherwise. ``title`` is for people. ``scopes`` is what a caller
    must have to see it and read it. ``timeout_s`` is in seconds. ``inline`` says that a sync function is quick enough
    to run on the event loop, without a thread of its own.
    """

    name: str
    title: str
    description: str
    scopes: Sequence[str]
    timeout_s: float | None
    inline: bool


class ResourceOptions(ReaderOptions, total=False):
    """The options of ``@resource``. ``media_type`` is that of what the function returns, such as ``text/markdown``."""

    media_type: str


def define_resource(
    uri: str,
    function: Callable[..., Any],
    options: ResourceOptions,
    *,
    toolkit: str,
    version: str,
    names: LocalNames,
) -> tuple[ResourceDefinition, Function]:
    """Return the resource at ``uri``, and the function that reads it.

    Raises:
        DefinitionError: ``uri`` is not a URI or a template, the parameters of the function are not the variables of the
            template, or an option cannot be used.
    """
    where = f"{get_function_name(function)}()"
    try:
        template = UriTemplate(uri)
    except ValueError as error:
        raise DefinitionError(f"{where}: {error}.") from None
    title, media_type = _read_texts(options, where, "title", "media_type")
    reader = _define_reader(function, options, "resource", toolkit=toolkit, version=version, names=names)
    _check_variables(template, reader, where)
    if media_type and build_form("file", "", media_type) is None:
        raise DefinitionError(f"{where}: {media_type[:100]!r} is not a valid media type. Write one such as text/plain.")
    write = reader.write

    def write_resource(value: Any) -> Result:
        if isinstance(value, bytes | bytearray):  # JSON has no bytes: they go as a file does
            form = build_form("file", urlsafe_b64encode(value).decode(), media_type or UNTYPED)
            return Value(form)
        return write(value)

    definition = ResourceDefinition(uri=uri, reader=reader.tool, title=title, media_type=media_type)
    return definition, replace(reader, write=write_resource)


def define_prompt(
    function: Callable[..., Any], options: ReaderOptions, *, toolkit: str, version: str, names: LocalNames
) -> tuple[PromptDefinition, Function]:
    """Return the prompt that ``function`` fills in, and the function as its reader.

    Raises:
        DefinitionError: the function cannot be one, or an option cannot be used; the sentence says why.
    """
    where = f"{get_function_name(function)}()"
    (title,) = _read_texts(options, where, "title")
    reader = _define_reader(function, options, "prompt", toolkit=toolkit, version=version, names=names)
    properties: dict[str, Any] = reader.tool.input_schema.get("properties", {})
    for name, schema in properties.items():
        if not is_prompt_text(schema):
            raise DefinitionError(
                f"{where}: users enter prompt arguments as text, which {name!r} cannot accept. Use a str, "
                "int, float, bool, or a choice of strings."
            )
    return PromptDefinition(reader=reader.tool, title=title), reader


def _define_reader(
    function: Callable[..., Any],
    options: ReaderOptions,
    kind: FeatureKind,
    *,
    toolkit: str,
    version: str,
    names: LocalNames,
) -> Function:
    where = f"{get_function_name(function)}()"
    known = {**ReaderOptions.__annotations__, **(ResourceOptions.__annotations__ if kind == "resource" else {})}
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise DefinitionError(f"{where} has no option {unknown!r}. Options: {', '.join(known)}.")
    own = {name: value for name, value in options.items() if name not in ("title", "media_type")}
    given: Any = {**own, **_READING}
    reader = define_function(function, given, toolkit=name_reader_toolkit(toolkit, kind), version=version, names=names)
    if reader.kind.streams:
        raise DefinitionError(f"{where} yields its result in parts, but a {kind} must return its result whole.")
    return reader


def _check_variables(template: UriTemplate, reader: Function, where: str) -> None:
    schema = reader.tool.input_schema
    properties, required = schema.get("properties", {}), schema.get("required", [])
    unfilled = next((name for name in template.names if name not in properties), None)
    if unfilled is not None:
        raise DefinitionError(
            f"{where}: {template.text!r} contains the variable {unfilled!r}, but no parameter has that name."
        )
    missing = next((name for name in required if name not in template.names), None)
    if missing is not None:
        raise DefinitionError(f"{where}: the parameter {missing!r} is not a variable of {template.text!r}.")


def _read_texts(options: ResourceOptions | ReaderOptions, where: str, *names: str) -> list[str]:
    texts: list[str] = []
    for name in names:
        text = options.get(name, "")
        if not isinstance(text, str):
            raise DefinitionError(f"{where}: the option {name!r} must be a string, not {text!r}.")
        texts.append(text)
    return texts
