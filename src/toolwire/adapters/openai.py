"""Build tools for chat completions of the OpenAI SDK, and run the calls of its models."""

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
from openai.types.shared_params import FunctionDefinition

from toolwire.core.toolbox import Toolbox

from .conversation import ModelCall, ModelError, ModelResult, ModelTurn
from .dialects import Provider
from .tool_declarations import NamedCaller, declare_tools, run_named_call, run_named_call_sync


def build_tools(toolbox: Toolbox | NamedCaller, *, strict: bool = False) -> list[ChatCompletionFunctionToolParam]:
    """Return the tools of ``toolbox`` for ``chat.completions.create(tools=...)``.

    ``strict`` declares as strict each tool whose schema allows it.
    """
    # XL-090
    return [
        ChatCompletionFunctionToolParam(
            type="function",
            function=FunctionDefinition(
                name=one.name,
                description=one.description,
                parameters=dict(one.input_schema.schema),
                strict=one.input_schema.is_strict,
            ),
        )
        for one in declare_tools(toolbox.catalog(), _choose_provider(strict=strict))
    ]


async def run_tool_call(
    toolbox: Toolbox, call: ChatCompletionMessageFunctionToolCall, *, strict: bool = False
) -> ChatCompletionToolMessageParam:
    """Run ``call`` and return the message that answers it. ``strict`` is as it was for ``build_tools``."""
    function = call.function
    result = await run_named_call(toolbox, _choose_provider(strict=strict), function.name, function.arguments)
    return _build_message(call.id, result)


def run_tool_call_sync(
    remote: NamedCaller, call: ChatCompletionMessageFunctionToolCall, *, strict: bool = False
) -> ChatCompletionToolMessageParam:
    """Return like ``run_tool_call``, blocking."""
    function = call.function
    result = run_named_call_sync(remote, _choose_provider(strict=strict), function.name, function.arguments)
    return _build_message(call.id, result)


class ChatModel:
    """A model behind OpenAI's chat completions, at OpenAI or at ``base_url``. See ``conversation.Model``.

    Raises:
        ModelError: there is no API key, neither ``key`` nor OPENAI_API_KEY.
    """

    def __init__(
        self,
        toolbox: Toolbox | NamedCaller,
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
        self._tools = build_tools(toolbox)
        self._messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": system}]

    def add_user_message(self, text: str) -> None:
        """Add a message of the user."""
        self._messages.append({"role": "user", "content": text})

    def get_turn(self) -> ModelTurn:
        """Send the conversation to the model and return its turn."""
        try:
            completion = self._client.chat.completions.create(
                model=self._model, messages=self._messages, tools=self._tools or omit
            )
            message = completion.choices[0].message
        except (OpenAIError, LookupError, TypeError) as error:
            raise ModelError(f"The model gave no answer: {error}") from error
        calls = [call for call in message.tool_calls or () if isinstance(call, ChatCompletionMessageFunctionToolCall)]
        kept: dict[str, Any] = {"role": "assistant", "content": message.content or ""}
        if calls:
            kept["tool_calls"] = [call.model_dump(exclude_none=True) for call in calls]
        self._messages.append(cast("ChatCompletionMessageParam", kept))
        model_calls = tuple(
            ModelCall(id=one.id, name=one.function.name, arguments=one.function.arguments) for one in calls
        )
        return ModelTurn(text=message.content or "", calls=model_calls)

    def add_tool_results(self, results: Sequence[tuple[ModelCall, ModelResult]]) -> None:
        """Add the results of all calls of the model's last turn."""
        self._messages.extend(_build_message(call.id, result) for call, result in results)


def _build_message(call_id: str, result: ModelResult) -> ChatCompletionToolMessageParam:
    return ChatCompletionToolMessageParam(role="tool", tool_call_id=call_id, content=result.text)


def _choose_provider(*, strict: bool) -> Provider:
    return Provider.OPENAI_STRICT if strict else Provider.OPENAI
