"""Define the objects of an OpenTool document by the names of the specification and its SDKs; read and write them.

Rules:
- What the specification does not know is kept: in ``extra``, and written after what it knows.
- A document without faults comes back from ``read`` and ``write`` with the same members and values; functions,
  parameters, properties, values and named schemas keep their order.
- None is a member that the document does not have.
"""
# A-03, OT-029

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from toolwire.core.json_pointer import build_pointer
from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsontext
from toolwire.framing.report import list_steps

from .document_repair import mend
from .relations import lacks_server, list_members
from .rules import examine
from .shapes import SHAPES, Member, SchemaForm, shape_of

LATEST: Final = "1.1.0"

_Extra: TypeAlias = Mapping[str, Json]


class Nothing(Enum):
    """The type of NOTHING."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING
"""The return of a function with ``"return": null``. A function without that field has None. [A-06]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """What every object of a document has: the members that the specification does not know."""

    extra: _Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema(_Object):
    """The format of a value. With ``reference`` (``#/schemas/NAME``), it is a named schema of the document.

    ``properties`` belong to objects and ``items`` to arrays. ``required`` names properties. ``enum`` contains values of
    the ``type``.
    """

    # OT-022..027, A-01

    type: str | None = None
    description: str | None = None
    properties: Mapping[str, Schema] | None = None
    items: Schema | None = None
    enum: tuple[Json, ...] | None = None
    required: tuple[str, ...] | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Return(_Object):
    """A function's return value, or one event of its stream."""

    # OT-019..021

    name: str
    description: str | None = None
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(_Object):
    """A parameter of a function."""

    # OT-015..018

    name: str
    description: str | None = None
    schema: Schema
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(_Object):
    """A function in a document. ``stream`` contains a return for each event, as in the 2.0 SDKs."""

    # OT-011..014, A-11

    name: str
    description: str
    parameters: tuple[Parameter, ...] = ()
    return_: Return | Nothing | None = None
    stream: Mapping[str, Return] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(_Object):
    """The tool's address. Clients never call it unless they are told to."""

    # OT-009, A-08

    url: str
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Info(_Object):
    """Describes a document. ``version`` is the document's own version."""

    # OT-006..008

    title: str
    description: str | None = None
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTool(_Object):
    """An OpenTool document. ``opentool`` is the specification's version. 1.0.0 does not define ``server``."""

    # OT-001..005, A-05

    opentool: str = LATEST
    info: Info
    server: Server | None = None
    functions: tuple[Function, ...]
    schemas: Mapping[str, Schema] | None = None

    @classmethod
    def from_json(cls, json: Json) -> OpenTool:
        """Return the document in ``json``. See ``read``.

        Raises:
            ValueError: ``json`` is not a document. The message says why.
        """
        document = read(json)
        if isinstance(document, Problem):
            raise ValueError(document.message)
        return document

    def to_json(self) -> dict[str, Json]:
        """Return the document as data. It raises what ``write`` raises."""
        return write(self)

    fromJson = from_json
    toJson = to_json


Object: TypeAlias = OpenTool | Info | Server | Function | Parameter | Return | Schema

_CLASSES: Final[Mapping[str, type[Object]]] = MappingProxyType(
    {
        "document": OpenTool,
        "info": Info,
        "server": Server,
        "function": Function,
        "parameter": Parameter,
        "return": Return,
        "schema": Schema,
        "reference": Schema,
    }
)
_SHAPE_OF: Final = MappingProxyType({made: name for name, made in _CLASSES.items() if name != "reference"})
_ATTRIBUTES: Final = MappingProxyType({"return": "return_", "$ref": "reference"})
"""What a member is called in Python, where it cannot be called by its own name."""


def read(data: Json) -> OpenTool | Problem:
    """Return the document that ``data`` is, of any version, or a Problem that names one of its errors.

    What real implementations leave out or set to null is mended first; see ``mending``. What is wrong between objects,
    like two functions of one name, is no Problem here: the validator finds it.
    """
    # OT-031, C-4
    mended = mend(data)
    errors = [one for one in examine(mended).faults if one.is_structural]
    if errors:
        where = build_pointer(list_steps(errors[0].path))[:200] or "the top"
        more = f" Errors in all: {len(errors)}." if len(errors) > 1 else ""
        text = f"This is not a valid OpenTool document, at {where}: {errors[0].message}{more}"
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    document: OpenTool = _read("document", mended)
    return document


def read_text(text: str | bytes) -> OpenTool | Problem:
    """Return the document in a JSON text, or a Problem: it is no JSON, or no document."""
    # OT-029
    data = jsontext.read(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return data if isinstance(data, Problem) else read(data)


def write(document: OpenTool, version: str | None = None) -> dict[str, Json]:
    """Return ``document`` as data, of another version of the specification if one is given.

    What is written has ``properties`` on each object and ``items`` on each array, whatever the objects say.

    Raises:
        ValueError: the version knows no ``server`` and the document has one. It is never dropped unasked.
    """
    # OT-031, A-04, OT-003
    if version is not None:
        document = replace(document, opentool=version)
    if document.server is not None and lacks_server(document.opentool):
        raise ValueError(
            f"version {document.opentool} does not define server. Remove it with replace(..., server=None)"
        )
    return _write(document)


def write_text(document: OpenTool, version: str | None = None) -> bytes:
    """Return ``document`` as compact JSON in UTF-8. Raises what ``write`` raises."""
    # OT-029
    return jsontext.write(write(document, version))


def _read(name: str, data: Mapping[str, Json]) -> Any:
    shape = shape_of(name, data)
    known = {member.name: member for member in list_members(shape, data)}
    members = {
        _ATTRIBUTES.get(name, name): _read_member(member, data[name]) for name, member in known.items() if name in data
    }
    extra = {name: value for name, value in data.items() if name not in known}
    return _CLASSES[shape](**members, extra=extra)


def _read_member(member: Member, value: Json) -> Any:
    match member.form:
        case SchemaForm.ONE | SchemaForm.ONE_OR_NULL:
            return NOTHING if value is None else _read(member.shape, value)
        case SchemaForm.LIST:
            return tuple(_read(member.shape, item) for item in value)
        case SchemaForm.MAP:
            return {name: _read(member.shape, item) for name, item in value.items()}
        case SchemaForm.VALUES | SchemaForm.NAMES:
            return tuple(value)
        case _:
            return value


def _write(one: Object) -> dict[str, Json]:
    shape = "reference" if isinstance(one, Schema) and one.reference is not None else _SHAPE_OF[type(one)]
    data: dict[str, Json] = {}
    for member in SHAPES[shape].values():
        value = getattr(one, _ATTRIBUTES.get(member.name, member.name))
        if value is not None:
            data[member.name] = _write_member(member, value)
    if data.get("type") == "object":
        data.setdefault("properties", {})
    elif data.get("type") == "array":
        data.setdefault("items", {"type": "object", "properties": {}})
    return data | {name: value for name, value in one.extra.items() if name not in data}


def _write_member(member: Member, value: Any) -> Json:
    match member.form:
        case SchemaForm.ONE | SchemaForm.ONE_OR_NULL:
            return None if value is NOTHING else _write(value)
        case SchemaForm.LIST:
            return [_write(item) for item in value]
        case SchemaForm.MAP:
            return {name: _write(item) for name, item in value.items()}
        case SchemaForm.VALUES | SchemaForm.NAMES:
            return list(value)
        case _:
            return value
