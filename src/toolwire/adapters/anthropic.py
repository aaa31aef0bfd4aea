"""Build tools for the Anthropic SDK, and run the calls of its models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from anthropic import Anthropic, AnthropicError
    from anthropic.types import (
        ImageBlockParam,
        MessageParam,
        TextBlockParam,
        ToolParam,
        ToolResultBlockParam,
        ToolUnionParam,
        ToolUseBlock,
    )
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "anthropic") from _error

from toolwire.core.content import Image
from toolwire.core.toolbox import Toolbox
from toolwire.framing.long_result import READ_RESULT

from .conversation import ModelCall, ModelError, ModelResult, ModelTurn, read_call_data
from .dialects import Provider
from .example_calls import list_example_calls
from .find_tools import ToolList
from .images import encode_image
from .tool_declarations import NamedCaller, ToolDeclaration, declare_toolbox, run_named_call, run_named_call_sync

_PROVIDER: Final = Provider.ANTHROPIC
_MAX_TOKENS: Final = 4_096


def build_tools(toolbox: Toolbox | NamedCaller, **listed: Unpack[ToolList]) -> list[ToolParam]:
    """Return the tools of ``toolbox`` for ``messages.create(tools=...)``."""
    # XL-090
    return [_build_tool(one) for one in declare_toolbox(toolbox, _PROVIDER, listed)]


def build_deferred_tools(toolbox: Toolbox | NamedCaller, *, pins: Iterable[str] = ()) -> list[ToolUnionParam]:
    """Return the tools of ``toolbox`` for a model that finds them with Anthropic's tool search.

    The model reads the definitions that it finds, and those of the tools in ``pins``. Example calls that a tool
    declares become ``input_examples``. Run the calls with ``run_tool_call``.
    """
    # FI-06
    tools: list[ToolUnionParam] = [{"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}]
    pinned = frozenset(pins)
    for one in declare_toolbox(toolbox, _PROVIDER):
        tool = _build_tool(one)
        if one.name not in pinned and one.tool is not READ_RESULT:  # what a long result refers to is not searched for
            tool["defer_loading"] = True
        # Services that offer Anthropic's models without its search refuse examples too, so `build_tools` has none.
        if examples := list_example_calls(one.input_schema):
            tool["input_examples"] = examples
        tools.append(tool)
    return tools


def _build_tool(one: ToolDeclaration) -> ToolParam:
    return ToolParam(name=one.name, description=one.description, input_schema=dict(one.input_schema.schema))


async def run_tool_call(
    toolbox: Toolbox, call: ToolUseBlock | Mapping[str, Any], *, images: bool = False
) -> ToolResultBlockParam:
    """Run ``call`` and return the block that answers it.

    ``call`` can be a dict of the API's JSON. With ``images``, the model sees up to 4 PNG, JPEG, GIF or WebP images of
    the result, each at most 3,750,000 bytes. Otherwise, and for other content, it reads a sentence instead.
    """
    asked = _read_call(call)
    return _build_block(asked.id, await run_named_call(toolbox, _PROVIDER, asked.name, asked.arguments, images=images))


def run_tool_call_sync(
    remote: NamedCaller, call: ToolUseBlock | Mapping[str, Any], *, images: bool = False
) -> ToolResultBlockParam:
    """Do the same as ``run_tool_call``, blocking."""
    asked = _read_call(call)
    return _build_block(asked.id, run_named_call_sync(remote, _PROVIDER, asked.name, asked.arguments, images=images))


class MessagesModel:
    """A model behind Anthropic's Messages API, at Anthropic or at ``base_url``. See ``conversation.Model``.

    Raises:
        ModelError: neither ``key`` nor the environment variable ANTHROPIC_API_KEY is set.
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
            self._client = Anthropic(base_url=base_url, api_key=key)
        except AnthropicError as error:
            raise ModelError(f"Cannot reach the model: {error}") from error
        self._model = model
        self._system = system
        self._toolbox = toolbox
        self._catalog = toolbox.catalog()
        self._tools = build_tools(toolbox)
        self._messages: list[MessageParam] = []

    def add_user_message(self, text: str) -> None:
        """Add a message from the user."""
        self._messages.append({"role": "user", "content": text})

    def get_turn(self) -> ModelTurn:
        """Send the conversation and the current tools to the model, and return its turn."""
        if (now := self._toolbox.catalog()) is not self._catalog:  # a site was connected meanwhile, or has changed
            self._catalog, self._tools = now, build_tools(self._toolbox)
        try:
            message = self._client.messages.create(
                model=self._model,
                system=self._system,
                messages=self._messages,
                tools=self._tools,
                max_tokens=_MAX_TOKENS,
            )
            content = list(message.content)
        except (AnthropicError, TypeError) as error:  # a missing API key is a TypeError of that SDK
            raise ModelError(f"The model did not answer: {error}") from error
        if content:
            self._messages.append({"role": "assistant", "content": content})
        calls = tuple(
            ModelCall(id=one.id, name=one.name, arguments=one.input) for one in content if isinstance(one, ToolUseBlock)
        )
        return ModelTurn(text="".join(one.text for one in content if one.type == "text"), calls=calls)

    def add_tool_results(self, results: Sequence[tuple[ModelCall, ModelResult]]) -> None:
        """Add the results of all calls in the model's last turn."""
        blocks = [_build_block(call.id, result) for call, result in results]
        self._messages.append({"role": "user", "content": blocks})


def _read_call(call: ToolUseBlock | Mapping[str, Any]) -> ModelCall:
    if isinstance(call, Mapping):
        return read_call_data(call, arguments_name="input")
    return ModelCall(id=call.id, name=call.name, arguments=call.input)


def _build_block(call_id: str, result: ModelResult) -> ToolResultBlockParam:
    block = ToolResultBlockParam(type="tool_result", tool_use_id=call_id, content=result.text, is_error=result.is_error)
    if result.images:
        text = TextBlockParam(type="text", text=result.text)
        block["content"] = [text, *map(_build_image, result.images)]
    return block


def _build_image(image: Image) -> ImageBlockParam:
    source: Any = {"type": "base64", "media_type": image.media_type.lower(), "data": encode_image(image)}
    return ImageBlockParam(type="image", source=source)
