"""Define what an OpenTool client sends and receives: FunctionCall, ToolReturn, Version.

Each is made as the specification makes it, by position too, and has ``fromJson`` and ``toJson`` beside the spelling
of Python. ``from_json`` raises ValueError for what is something else.
"""
# OTRPC-015..019

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolwire.core.model import Json
from toolwire.framing.jsontext import describe_type

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Version:
    """The version that a server reports: any text, usually like ``1.0.0``."""

    version: str

    @classmethod
    def from_json(cls, json: Mapping[str, Json]) -> Version:
        """Return the version in ``{"version"}``."""
        return cls(_member(json, "version", str))

    def to_json(self) -> dict[str, Json]:
        """Return ``{"version"}``."""
        return {"version": self.version}

    def __str__(self) -> str:
        return self.version

    fromJson = from_json
    toJson = to_json


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One call of the function ``name``. The answer has the same ``id``."""

    # OTRPC-018

    id: str
    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def from_json(cls, json: Mapping[str, Json]) -> FunctionCall:
        """Return the call in ``{"id", "name", "arguments"}``."""
        return cls(_member(json, "id", str), _member(json, "name", str), _member(json, "arguments", dict))

    def to_json(self) -> dict[str, Json]:
        """Return ``{"id", "name", "arguments"}``."""
        return {"id": self.id, "name": self.name, "arguments": dict(self.arguments)}

    fromJson = from_json
    toJson = to_json


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """The answer to a call: ``result`` is the object that the server sent, and ``id`` is the call's ID."""

    # OTRPC-019

    id: str
    result: Mapping[str, Any]

    @classmethod
    def from_json(cls, json: Mapping[str, Json]) -> ToolReturn:
        """Return the answer in ``{"id", "result"}``."""
        return cls(_member(json, "id", str), _member(json, "result", dict))

    def to_json(self) -> dict[str, Json]:
        """Return ``{"id", "result"}``."""
        return {"id": self.id, "result": dict(self.result)}

    fromJson = from_json
    toJson = to_json


def _member(json: Mapping[str, Json], name: str, kind: type[T]) -> T:
    value = json.get(name)
    if not isinstance(value, kind):
        expected = "an object" if kind is dict else "a string"
        raise ValueError(f"{name!r} must be {expected}, not {describe_type(value)}")
    return value
