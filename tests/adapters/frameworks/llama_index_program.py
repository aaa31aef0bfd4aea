"""The story with LlamaIndex: a FunctionAgent, whose workflow waits for its user."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.workflow import HumanResponseEvent, InputRequiredEvent
from story import Calls, Current, Decide, Outcome, tell

from toolwire.adapters.llama_index import Deferral, approve, build_tools, deny


async def converse(remote: Any, turns: list[Calls], decide: Decide | None) -> Outcome:
    left: list[Any] = [*turns, "done"]
    outcome = Outcome()

    def play(messages: Any, **more: Any) -> ChatMessage:
        turn = left.pop(0) if left else "done"
        if isinstance(turn, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=turn)
        blocks = [
            ToolCallBlock(tool_call_id=f"c{len(left)}-{at}", tool_name=name, tool_kwargs=given)
            for at, (name, given) in enumerate(turn)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)

    tools = build_tools(remote, images=True, deferral=Current.deferral)
    outcome.declared = [one.metadata.to_openai_tool()["function"] for one in tools]
    agent = FunctionAgent(llm=MockFunctionCallingLLM(response_generator=play), tools=[*tools])
    handler = agent.run("Do it.")
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            outcome.asked.append(event.prefix)
            allowed = decide is not None and decide(outcome.asked[-1])
            answer = approve(event) if allowed else deny(event, "not today")
            handler.ctx.send_event(HumanResponseEvent(**answer))
        if isinstance(event, ToolCallResult):
            outcome.read.append(event.tool_output.content)
            outcome.images += sum(isinstance(one, ImageBlock) for one in event.tool_output.blocks)
    await asyncio.wait_for(handler, 60)
    return outcome


if __name__ == "__main__":
    tell(converse, deferral=Deferral)
