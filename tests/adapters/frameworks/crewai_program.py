"""The story with CrewAI: an agent with a task, whose model is behind chat completions on loopback."""

from __future__ import annotations

import asyncio
from typing import Any

from crewai import LLM, Agent, Crew, Task
from story import Calls, Decide, Outcome, tell

from examples.scripted_model import lines, provider
from toolwire.adapters.crewai import build_tools_sync


async def converse(remote: Any, turns: list[Calls], decide: Decide | None) -> Outcome:
    outcome = Outcome()
    with provider(lines(*turns, "Thought: I know.\nFinal Answer: done")) as model:
        llm = LLM(model="openai/scripted", base_url=f"{model.url}/v1", api_key="none")
        agent = Agent(role="clerk", goal="Do it.", backstory="A clerk.", llm=llm, tools=build_tools_sync(remote))
        task = Task(description="Do it.", expected_output="What was done.", agent=agent)
        await asyncio.to_thread(Crew(agents=[agent], tasks=[task]).kickoff)
        outcome.read = [str(one["content"]) for one in model.heard[-1]["messages"] if one["role"] == "tool"]
        outcome.declared = [one["function"] for one in model.heard[0].get("tools", ())]
    return outcome


if __name__ == "__main__":
    tell(converse, deferral=None, is_sync=True)
