"""Tools for Pydantic AI."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Tool

from toolwire.consent.tool_facts import facts
from toolwire.core.toolbox import Toolbox

from .dialects import Provider
from .tool_declarations import ToolDeclaration, offered, ran

_PROVIDER = Provider.OPENAI  # whole JSON Schema: Pydantic AI fits it to the model, and restores nothing but our keys


def tools(box: Toolbox) -> list[Tool[Any]]:
    """Return the tools of ``box`` for ``Agent(tools=...)``, each of which calls it.

    The ``metadata`` of each says what its consent, its costs and its scopes are. [XL-085, XL-090]
    """

    def made(one: ToolDeclaration) -> Tool[Any]:
        async def call(**said: Any) -> str:
            return await ran(box, _PROVIDER, one.name, said)

        tool = Tool.from_schema(call, one.name, one.description, dict(one.shape.schema))
        tool.metadata = facts(one.tool)
        return tool

    return [made(one) for one in offered(box.catalog(), _PROVIDER)]
