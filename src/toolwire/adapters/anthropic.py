"""Tools for the Anthropic SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anthropic import Anthropic, AnthropicError
from anthropic.types import MessageParam, ToolParam, ToolResultBlockParam, ToolUseBlock

from toolwire.core.toolbox import Toolbox

from .conversation import ModelCall, ModelError, ModelTurn
from .dialects import Provider
from .tool_declarations import NamedCaller, failed, offered, ran, ran_sync

_MOST_TOKENS: Final = 4_096


def tools(box: Toolbox | NamedCaller, *, strict: bool = False) -> list[ToolParam]:
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


def run_sync(remote: NamedCaller, call: ToolUseBlock, *, strict: bool = False) -> ToolResultBlockParam:
    """Return like ``run``, blocking."""
    return _block(call, ran_sync(remote, _provider(strict=strict), call.name, call.input))


class MessagesModel:
    """A model that speaks Anthropic's messages, at Anthropic or at ``base_url``. See ``conversation.Model``.

    Raises:
        ModelError: there is no key for it, neither ``key`` nor ANTHROPIC_API_KEY.
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
            self._client = Anthropic(base_url=base_url, api_key=key)
        except AnthropicError as error:
            raise ModelError(f"The model cannot be reached: {error}") from error
        self._model = model
        self._system = system
        self._tools = tools(box)
        self._messages: list[MessageParam] = []

    def hear(self, text: str) -> None:
        """Tell the model what the person says."""
        self._messages.append({"role": "user", "content": text})

    def answer(self) -> ModelTurn:
        """Return what the model says now."""
        try:
            message = self._client.messages.create(
                model=self._model,
                system=self._system,
                messages=self._messages,
                tools=self._tools,
                max_tokens=_MOST_TOKENS,
            )
            content = list(message.content)
        except (AnthropicError, TypeError) as error:  # a missing key is a TypeError of that SDK
            raise ModelError(f"The model gave no answer: {error}") from error
        if content:
            self._messages.append({"role": "assistant", "content": content})
        calls = tuple(
            ModelCall(id=one.id, name=one.name, arguments=one.input) for one in content if isinstance(one, ToolUseBlock)
        )
        return ModelTurn(text="".join(one.text for one in content if one.type == "text"), calls=calls)

    def told(self, results: Sequence[tuple[ModelCall, str]]) -> None:
        """Tell the model how all the calls of its last turn ended."""
        blocks = [
            ToolResultBlockParam(type="tool_result", tool_use_id=call.id, content=text, is_error=failed(text))
            for call, text in results
        ]
        self._messages.append({"role": "user", "content": blocks})


def _block(call: ToolUseBlock, text: str) -> ToolResultBlockParam:
    return ToolResultBlockParam(type="tool_result", tool_use_id=call.id, content=text, is_error=failed(text))


def _provider(*, strict: bool) -> Provider:
    return Provider.ANTHROPIC_STRICT if strict else Provider.ANTHROPIC
