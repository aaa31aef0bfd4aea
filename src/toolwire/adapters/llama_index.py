"""Build tools for LlamaIndex, whose workflows wait for the user about calls that need approval."""
# FU-22
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# The framework is not in the environment of the type checkers; tests/adapters/frameworks runs this module with it.

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from llama_index.core.base.llms.types import ImageBlock, TextBlock
    from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "llama-index") from _error

from toolwire.core.check import Question
from toolwire.core.toolbox import Toolbox

from .conversation import ModelResult
from .deferral import Deferral, ModelCalls, ModelToolCall, approve, deny, describe_question, read_answer
from .dialects import Provider
from .find_tools import ToolList
from .tool_declarations import NamedCaller, ToolDeclaration, declare_toolbox, run_named_call, run_named_call_sync

__all__ = ["Deferral", "approve", "build_tools", "build_tools_sync", "deny"]

_PROVIDER = Provider.OPENAI  # full JSON Schema: each LLM class of LlamaIndex passes it on


def build_tools(
    toolbox: Toolbox, *, images: bool = False, deferral: Deferral | None = None, **listed: Unpack[ToolList]
) -> list[FunctionTool]:
    """Return the tools of ``toolbox`` for ``FunctionAgent(tools=...)``; the agent runs their calls.

    With ``images``, the output of a tool has the images of its result: PNG, JPEG, GIF and WebP, at most 4, of 3,750,000
    bytes each. With ``deferral``, the workflow waits for the user about a call that needs approval: it emits an
    ``InputRequiredEvent``, and ``HumanResponseEvent(**approve(event))`` runs the call.
    """

    def build(declaration: ToolDeclaration) -> FunctionTool:
        async def call(**arguments: Any) -> ToolOutput:
            result = await run_named_call(toolbox, _PROVIDER, declaration.name, arguments, images=images)
            return _build_output(declaration, arguments, result)

        return _build(declaration, async_fn=call)

    def build_waiting(declaration: ToolDeclaration, deferral: Deferral) -> FunctionTool:
        async def call_in_workflow(toolwire_context: Context, **arguments: Any) -> ToolOutput:
            calls = ModelCalls(toolbox, _PROVIDER, deferral, images=images)
            ask = _build_ask(toolwire_context, deferral)
            result = await calls.run_asking(ModelToolCall(declaration.name, arguments), ask)
            return _build_output(declaration, arguments, result)

        # LlamaIndex looks for the class itself, and annotations are texts here.
        call_in_workflow.__annotations__["toolwire_context"] = Context
        return _build(declaration, async_fn=call_in_workflow)

    declarations = declare_toolbox(toolbox, _PROVIDER, listed)
    return [build(one) if deferral is None else build_waiting(one, deferral) for one in declarations]


def build_tools_sync(remote: NamedCaller, *, images: bool = False, **listed: Unpack[ToolList]) -> list[FunctionTool]:
    """Return like ``build_tools``; the tools block, and the approver of the connection is asked."""

    def build(declaration: ToolDeclaration) -> FunctionTool:
        def call(**arguments: Any) -> ToolOutput:
            result = run_named_call_sync(remote, _PROVIDER, declaration.name, arguments, images=images)
            return _build_output(declaration, arguments, result)

        return _build(declaration, fn=call)

    return [build(declaration) for declaration in declare_toolbox(remote, _PROVIDER, listed)]


def _build_ask(context: Context, deferral: Deferral) -> Callable[[Question], Awaitable[ModelResult | None]]:
    """Return a function that asks the user of a workflow about one call.

    While the workflow waits, it gives up this call and later runs it again from its beginning.
    """
    claimed: list[str] = []

    async def ask(question: Question) -> ModelResult | None:
        asked = describe_question(question)
        while True:
            # Two calls with the same arguments have the same question, and each needs an answer of its own.
            id_ = deferral.find_unclaimed(str(asked["id"]))
            event = InputRequiredEvent(prefix=asked["text"], **(asked | {"id": id_}))
            try:
                # LlamaIndex names the waiter itself, by its unit of work: with one name, two calls would be one waiter.
                answer = await context.wait_for_event(
                    HumanResponseEvent, waiter_event=event, requirements={"id": id_}, timeout=None
                )
            except BaseException:
                deferral.release(claimed)
                raise
            if deferral.claim(id_):
                claimed.append(id_)
                return read_answer(answer, id_)

    return ask


class _Metadata(ToolMetadata):
    """The description of a tool with its own JSON Schema; long descriptions are not refused."""

    def __init__(self, declaration: ToolDeclaration) -> None:
        super().__init__(declaration.description, declaration.name, fn_schema=None)
        self._schema = dict[str, Any](declaration.input_schema.schema)

    def get_parameters_dict(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        return self._schema

    def to_openai_tool(self, skip_length_check: bool = True) -> dict[str, Any]:
        """Return the tool as OpenAI takes it, whose limit is above 1,024 characters."""
        tool: dict[str, Any] = super().to_openai_tool(skip_length_check=True)
        return tool


def _build(declaration: ToolDeclaration, **functions: Any) -> FunctionTool:
    return FunctionTool(metadata=_Metadata(declaration), callback=_return_output, **functions)


def _return_output(output: ToolOutput) -> ToolOutput:
    return output


def _build_output(declaration: ToolDeclaration, arguments: dict[str, Any], result: ModelResult) -> ToolOutput:
    images = [ImageBlock(image=one.data, image_mimetype=one.media_type.lower()) for one in result.images]
    return ToolOutput(
        blocks=[TextBlock(text=result.text), *images],
        tool_name=declaration.name,
        raw_input={"kwargs": arguments},
        raw_output=result.text,
        is_error=result.is_error,
    )
