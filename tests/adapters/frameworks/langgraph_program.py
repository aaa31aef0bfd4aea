"""The story with an agent of LangChain, which runs in LangGraph and is interrupted there."""

from __future__ import annotations

import json
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from story import Calls, Current, Decide, Outcome, tell

from toolwire.adapters.langchain import Deferral, approve, build_tools, deny


class Scripted(BaseChatModel):
    """A model that plays turns, and keeps what it is told of tools."""

    turns: list[Any]
    declared: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        from langchain_core.utils.function_calling import convert_to_openai_tool

        self.declared[:] = [convert_to_openai_tool(one)["function"] for one in tools]
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        turn = self.turns.pop(0) if self.turns else "done"
        if isinstance(turn, str):
            return ChatResult(generations=[ChatGeneration(message=AIMessage(turn))])
        calls = [
            {"name": name, "args": given, "id": f"c{len(messages)}-{at}", "type": "tool_call"}
            for at, (name, given) in enumerate(turn)
        ]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])


async def converse(remote: Any, turns: list[Calls], decide: Decide | None) -> Outcome:
    model = Scripted(turns=list(turns), declared=[])
    tools = build_tools(remote, deferral=Current.deferral)
    agent = create_agent(model, tools, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    outcome = Outcome()
    result = await agent.ainvoke({"messages": [HumanMessage("Do it.")]}, thread)
    while waiting := result.get("__interrupt__"):
        answers = {}
        for one in waiting:
            outcome.asked.append(one.value["text"])
            allowed = decide is not None and decide(outcome.asked[-1])
            answers[one.id] = approve(one.value) if allowed else deny(one.value, "not today")
        result = await agent.ainvoke(Command(resume=answers), thread)
    outcome.read = [str(one.content) for one in result["messages"] if isinstance(one, ToolMessage)]
    outcome.declared = json.loads(json.dumps(model.declared))
    return outcome


if __name__ == "__main__":
    tell(converse, deferral=Deferral)
