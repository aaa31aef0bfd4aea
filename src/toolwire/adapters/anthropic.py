"""Tools for the Anthropic SDK."""

from __future__ import annotations

from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock

from toolwire.core.toolbox import Toolbox

from .dialects import Provider
from .offering import Caller, failed, offered, ran, ran_sync


def tools(box: Toolbox | Caller, *, strict: bool = False) -> list[ToolParam]:
    """Return the tools of ``box`` for ``messages.create(tools=...)``. [XL-090]

    ``strict`` declares strict what can be, as many as one request may have; the others stay as they are.
    """
    found: list[ToolParam] = []
    for one in offered(box.catalog(), _provider(strict=strict)):
        tool = ToolParam(name=one.name, description=one.description, input_schema=dict(one.shape.schema))
        if one.shape.strict:
            tool["strict"] = True
        found.append(tool)
    return found


async def run(box: Toolbox, call: ToolUseBlock, *, strict: bool = False) -> ToolResultBlockParam:
    """Return the block that answers ``call``; give ``strict`` as it was given for the tools."""
    return _block(call, await ran(box, _provider(strict=strict), call.name, call.input))


def run_sync(remote: Caller, call: ToolUseBlock, *, strict: bool = False) -> ToolResultBlockParam:
    """Return like ``run``, blocking."""
    return _block(call, ran_sync(remote, _provider(strict=strict), call.name, call.input))


def _block(call: ToolUseBlock, text: str) -> ToolResultBlockParam:
    return ToolResultBlockParam(type="tool_result", tool_use_id=call.id, content=text, is_error=failed(text))


def _provider(*, strict: bool) -> Provider:
    return Provider.ANTHROPIC_STRICT if strict else Provider.ANTHROPIC
