"""Write and read ``x-toolwire``: the name, toolkit and version of the tool that an operation was made of.

For a tool that returns exactly one image, audio or file, it also says which.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from toolwire.core.catalog import NAME, VERSION
from toolwire.core.content import MEDIA_RANGES, find_content_kind
from toolwire.core.model import Json, Requirements, Tool
from toolwire.framing import jsontext
from toolwire.framing.call_context import read_requirements, write_requirements

MEMBER = "x-toolwire"


class Identity(NamedTuple):
    """The name, toolkit and version of a tool."""

    name: str
    toolkit: str
    version: str


def write(tool: Tool) -> dict[str, Json]:
    """Return the value of ``x-toolwire`` for ``tool``."""
    # OXP-007
    written: dict[str, Json] = {"name": tool.name, "toolkit": tool.toolkit, "version": tool.version}
    if tool.requirements:
        written["requirements"] = write_requirements(tool.requirements)  # I-27
    kind = find_content_kind(tool.output_schema)
    return {**written, "content": kind} if kind else written


def read(operation: dict[str, Any]) -> Identity | None:
    """Return the identity that an operation declares, or None if it declares none or an invalid one."""
    match operation.get(MEMBER):
        case {"name": str(name), "toolkit": str(toolkit), "version": str(version)}:
            legal = NAME.fullmatch(name) and VERSION.fullmatch(version) and len(version) <= 32
            return Identity(name, toolkit, version) if legal and (not toolkit or NAME.fullmatch(toolkit)) else None
        case _:
            return None


def read_own_requirements(operation: dict[str, Any]) -> Requirements:
    """Return what a call of an operation must bring besides its arguments, as its ``x-toolwire`` says."""
    return read_requirements(jsontext.get_object(operation, MEMBER).get("requirements"))


def read_content_kind(operation: dict[str, Any]) -> str:
    """Return ``image``, ``audio`` or ``file`` if an operation declares that it returns exactly one, else ``""``."""
    # MC-07: the media type alone does not tell an image from a file that happens to be one.
    match operation.get(MEMBER):
        case {"content": str(kind)} if kind in MEDIA_RANGES:
            return kind
        case _:
            return ""


def release(document: dict[str, Any]) -> str:
    """Return ``info.version`` of a document if it is a valid version of a tool, else ``1.0.0``."""
    info = document.get("info")
    version = info.get("version") if isinstance(info, dict) else None
    legal = isinstance(version, str) and len(version) <= 32 and VERSION.fullmatch(version)
    return version if isinstance(version, str) and legal else "1.0.0"
