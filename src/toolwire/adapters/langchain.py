"""Tools for LangChain and what builds on it."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool

from toolwire.consent.tool_facts import facts
from toolwire.core.toolbox import Toolbox

from .dialects import Provider
from .tool_declarations import NamedCaller, ToolDeclaration, failed, offered, ran, ran_sync

_PROVIDER = Provider.OPENAI  # whole JSON Schema, with keys that every model behind LangChain takes


def tools(box: Toolbox) -> list[BaseTool]:
    """Return the tools of ``box``, each a LangChain tool that calls it; they are asynchronous.

    The ``metadata`` of each says what its consent, its costs and its scopes are. [XL-085, XL-090]
    """

    def made(one: ToolDeclaration) -> BaseTool:
        async def call(**said: Any) -> str:
            return await ran(box, _PROVIDER, one.name, said)

        return StructuredTool(
            name=one.name,
            description=one.description,
            args_schema=dict(one.shape.schema),
            coroutine=call,
            metadata=facts(one.tool),
        )

    return [made(one) for one in offered(box.catalog(), _PROVIDER)]


def tools_sync(remote: NamedCaller) -> list[BaseTool]:
    """Return like ``tools``, blocking."""

    def made(one: ToolDeclaration) -> BaseTool:
        def call(**said: Any) -> str:
            return ran_sync(remote, _PROVIDER, one.name, said)

        return StructuredTool(
            name=one.name,
            description=one.description,
            args_schema=dict(one.shape.schema),
            func=call,
            metadata=facts(one.tool),
        )

    return [made(one) for one in offered(remote.catalog(), _PROVIDER)]


async def run(box: Toolbox, call: ToolCall) -> ToolMessage:
    """Return the message that answers ``call``."""
    text = await ran(box, _PROVIDER, call["name"], call["args"])
    return ToolMessage(text, tool_call_id=call["id"] or "", status="error" if failed(text) else "success")
