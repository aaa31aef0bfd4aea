"""Build tools for smolagents. It has no approvals of its own, so the approver of the connection is asked."""
# FU-22
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# The framework is not in the environment of the type checkers; tests/adapters/frameworks runs this module with it.

from __future__ import annotations

import re
from hashlib import sha256
from keyword import iskeyword
from typing import Any, Final, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from smolagents import Tool
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "smolagents") from _error

from .dialects import Provider
from .find_tools import ToolList
from .tool_declarations import NamedCaller, ToolDeclaration, declare_toolbox, run_named_call_sync

_PROVIDER = Provider.GEMINI  # no references and no lists of types: smolagents takes each argument by itself
_TYPES: Final = frozenset(("string", "boolean", "integer", "number", "array", "object", "null"))


def build_tools_sync(remote: NamedCaller, **listed: Unpack[ToolList]) -> list[Tool]:
    """Return the tools of ``remote`` for ``ToolCallingAgent(tools=...)`` and ``CodeAgent(tools=...)``.

    Their calls block, and return the text that a model reads. A name that is none in Python is changed.
    """
    return [_SiteTool(remote, declaration) for declaration in declare_toolbox(remote, _PROVIDER, listed)]


class _SiteTool(Tool):  # type: ignore[misc]  # smolagents may not be installed where this is checked
    """One tool of a site."""

    output_type = "string"
    skip_forward_signature_validation = True  # the arguments are those of the site

    def __init__(self, remote: NamedCaller, declaration: ToolDeclaration) -> None:
        self.name = _name_in_python(declaration.name)
        self.description = declaration.description
        self.inputs = _build_inputs(declaration)

        def run(arguments: dict[str, Any]) -> str:
            return run_named_call_sync(remote, _PROVIDER, declaration.name, arguments).text

        self._run = run
        super().__init__()

    def forward(self, **arguments: Any) -> str:
        """Run one call."""
        return self._run(arguments)


def _name_in_python(name: str) -> str:
    """Return ``name``, or another one with its digest if code of a model could not call it."""
    if name.isidentifier() and not iskeyword(name):
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"tool_{re.sub('[^A-Za-z0-9_]', '_', name)[:48]}_{digest}"


def _build_inputs(declaration: ToolDeclaration) -> dict[str, dict[str, Any]]:
    schema: Any = declaration.input_schema.schema
    required = schema.get("required", ())
    inputs: dict[str, dict[str, Any]] = {}
    for name, one in schema.get("properties", {}).items():
        kind = one.get("type")
        input_ = {**one, "type": kind if kind in _TYPES else "any", "description": one.get("description", name)}
        if name not in required:
            input_["nullable"] = True
        inputs[name] = input_
    return inputs
