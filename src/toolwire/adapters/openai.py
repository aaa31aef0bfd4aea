"""Tools for the OpenAI SDK, both its ways: chat completions and responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from openai import OpenAI, OpenAIError, omit
from openai.types.chat import (
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageParam,
    ChatCompletionToolMessageParam,
)
from openai.types.chat.chat_completion_function_tool_param import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall
from openai.types.responses.response_input_param import FunctionCallOutput
from openai.types.shared_params import FunctionDefinition

from toolwire.core.toolbox import Toolbox

from .conversation import ModelCall, ModelError, ModelTurn
from .dialects import Provider
from .tool_declarations import NamedCaller, offered, ran, ran_sync


def chat_tools(box: Toolbox | NamedCaller, *, strict: bool = False) -> list[ChatCompletionFunctionToolParam]:
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


def response_tools(box: Toolbox | NamedCaller, *, strict: bool = False) -> list[FunctionToolParam]:
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
    remote: NamedCaller, call: ChatCompletionMessageFunctionToolCall, *, strict: bool = False
) -> ChatCompletionToolMessageParam:
    """Return like ``run_chat``, blocking."""
    text = ran_sync(remote, _provider(strict=strict), call.function.name, call.function.arguments)
    return ChatCompletionToolMessageParam(role="tool", tool_call_id=call.id, content=text)


async def run_response(box: Toolbox, call: ResponseFunctionToolCall, *, strict: bool = False) -> FunctionCallOutput:
    """Return the input item that answers ``call``; give ``strict`` as it was given for the tools."""
    text = await ran(box, _provider(strict=strict), call.name, call.arguments)
    return FunctionCallOutput(type="function_call_output", call_id=call.call_id, output=text)


def run_response_sync(
    remote: NamedCaller, call: ResponseFunctionToolCall, *, strict: bool = False
) -> FunctionCallOutput:
    """Return like ``run_response``, blocking."""
    text = ran_sync(remote, _provider(strict=strict), call.name, call.arguments)
    return FunctionCallOutput(type="function_call_output", call_id=call.call_id, output=text)


class ChatModel:
    """A model that speaks OpenAI's chat completions, at OpenAI or at ``base_url``. See ``conversation.Model``.

    Raises:
        ModelError: there is no key for it, neither ``key`` nor OPENAI_API_KEY.
    """

    def __init__(
        self,
        box: Toolbox | NamedCaller,
        *,
        model: str,
        system: str,
        base_url: str | None = None,
        key: str | None = None,
    ) -> None:
        try:
            self._client = OpenAI(base_url=base_url, api_key=key)
        except OpenAIError as error:
            raise ModelError(f"The model cannot be reached: {error}") from error
        self._model = model
        self._tools = chat_tools(box)
        self._messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": system}]

    def hear(self, text: str) -> None:
        """Tell the model what the person says."""
        self._messages.append({"role": "user", "content": text})

    def answer(self) -> ModelTurn:
        """Return what the model says now."""
        try:
            found = self._client.chat.completions.create(
                model=self._model, messages=self._messages, tools=self._tools or omit
            )
            message = found.choices[0].message
        except (OpenAIError, LookupError, TypeError) as error:
            raise ModelError(f"The model gave no answer: {error}") from error
        calls = [call for call in message.tool_calls or () if isinstance(call, ChatCompletionMessageFunctionToolCall)]
        kept: dict[str, Any] = {"role": "assistant", "content": message.content or ""}
        if calls:
            kept["tool_calls"] = [call.model_dump(exclude_none=True) for call in calls]
        self._messages.append(cast("ChatCompletionMessageParam", kept))
        wanted = tuple(ModelCall(id=one.id, name=one.function.name, arguments=one.function.arguments) for one in calls)
        return ModelTurn(text=message.content or "", calls=wanted)

    def told(self, results: Sequence[tuple[ModelCall, str]]) -> None:
        """Tell the model how all the calls of its last turn ended."""
        for call, text in results:
            self._messages.append(ChatCompletionToolMessageParam(role="tool", tool_call_id=call.id, content=text))


def _provider(*, strict: bool) -> Provider:
    return Provider.OPENAI_STRICT if strict else Provider.OPENAI
