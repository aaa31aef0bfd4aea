"""Build tools for CrewAI. It has no approvals of calls, so the approver of the connection is asked."""
# FU-22
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# The framework is not in the environment of the type checkers; tests/adapters/frameworks runs this module with it.

from __future__ import annotations

from typing import Any, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from crewai.tools import BaseTool
    from crewai.tools.tool_failure import ToolFailure
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "crewai") from _error
from pydantic import BaseModel, ConfigDict

from .dialects import Provider
from .find_tools import ToolList
from .tool_declarations import NamedCaller, ToolDeclaration, declare_toolbox, run_named_call_sync

_PROVIDER = Provider.OPENAI


def build_tools_sync(remote: NamedCaller, **listed: Unpack[ToolList]) -> list[BaseTool]:
    """Return the tools of ``remote`` for ``Agent(tools=...)``; their calls block.

    A failure and a denial are a ``ToolFailure``, which counts as one in CrewAI. No result is taken from its cache.
    """
    return [_build(remote, declaration) for declaration in declare_toolbox(remote, _PROVIDER, listed)]


def _build(remote: NamedCaller, declaration: ToolDeclaration) -> BaseTool:
    schema = dict[str, Any](declaration.input_schema.schema)

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return schema  # as the site has it; the connection checks the arguments

    class SiteTool(BaseTool):  # type: ignore[misc]  # CrewAI may not be installed where this is checked
        def _run(self, **arguments: Any) -> Any:
            result = run_named_call_sync(remote, _PROVIDER, declaration.name, arguments)
            return ToolFailure(message=result.text) if result.is_error else result.text

    return SiteTool(
        name=declaration.name,
        description=declaration.description,
        args_schema=Arguments,
        cache_function=_never_cache,  # the same call again is another call
    )


def _never_cache(_arguments: Any = None, _result: Any = None) -> bool:
    return False
