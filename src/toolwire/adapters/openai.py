"""Tools for the OpenAI SDK, both its ways: chat completions and responses."""

from __future__ import annotations

from typing import Any

from openai.types.chat import ChatCompletionMessageFunctionToolCall, ChatCompletionToolMessageParam
from openai.types.chat.chat_completion_function_tool_param import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall
from openai.types.responses.response_input_param import FunctionCallOutput
from openai.types.shared_params import FunctionDefinition

from toolwire.core.toolbox import Toolbox

from .dialects import Provider
from .offering import Caller, offered, ran, ran_sync


def chat_tools(box: Toolbox | Caller, *, strict: bool = False) -> list[ChatCompletionFunctionToolParam]:
    """Return the tools of ``box`` for ``chat.completions.create(tools=...)``. [XL-090]

    ``strict`` declares strict what can be; the others stay as they are.
    """
    return [
        ChatCompletionFunctionToolParam(
            type="function",
            function=FunctionDefinition(
                name=one.name,
                description=one.description,
                parameters=dict(one.shape.schema),
                strict=one.shape.strict,
            ),
        )
        for one in offered(box.catalog(), _provider(strict=strict))
    ]


def response_tools(box: Toolbox | Caller, *, strict: bool = False) -> list[FunctionToolParam]:
    """Return the tools of ``box`` for ``responses.create(tools=...)``. [XL-090]"""
    return [
        FunctionToolParam(
            type="function",
            name=one.name,
            description=one.description,
            parameters=dict[str, Any](one.shape.schema),
            strict=one.shape.strict,
        )
        for one in offered(box.catalog(), _provider(strict=strict))
    ]


async def run_chat(
    box: Toolbox, call: ChatCompletionMessageFunctionToolCall, *, strict: bool = False
) -> ChatCompletionToolMessageParam:
    """Return the message that answers ``call``; give ``strict`` as it was given for the tools."""
    text = await ran(box, _provider(strict=strict), call.function.name, call.function.arguments)
    return ChatCompletionToolMessageParam(role="tool", tool_call_id=call.id, content=text)


def run_chat_sync(
    remote: Caller, call: ChatCompletionMessageFunctionToolCall, *, strict: bool = False
) -> ChatCompletionToolMessageParam:
    """Return like ``run_chat``, blocking."""
    text = ran_sync(remote, _provider(strict=strict), call.function.name, call.function.arguments)
    return ChatCompletionToolMessageParam(role="tool", tool_call_id=call.id, content=text)


async def run_response(box: Toolbox, call: ResponseFunctionToolCall, *, strict: bool = False) -> FunctionCallOutput:
    """Return the input item that answers ``call``; give ``strict`` as it was given for the tools."""
    text = await ran(box, _provider(strict=strict), call.name, call.arguments)
    return FunctionCallOutput(type="function_call_output", call_id=call.call_id, output=text)


def run_response_sync(remote: Caller, call: ResponseFunctionToolCall, *, strict: bool = False) -> FunctionCallOutput:
    """Return like ``run_response``, blocking."""
    text = ran_sync(remote, _provider(strict=strict), call.name, call.arguments)
    return FunctionCallOutput(type="function_call_output", call_id=call.call_id, output=text)


def _provider(*, strict: bool) -> Provider:
    return Provider.OPENAI_STRICT if strict else Provider.OPENAI
