"""The story with smolagents, told by its tool-calling agent and then by its agent that writes code.

The model is behind chat completions on loopback.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent
from story import Calls, Decide, Outcome, tell

from examples.scripted_model import lines, provider
from toolwire.adapters.smolagents import build_tools_sync


async def converse(remote: Any, turns: list[Calls], decide: Decide | None) -> Outcome:
    outcome = Outcome()
    with provider(lines(*turns, [("final_answer", {"answer": "done"})])) as model:
        tools = build_tools_sync(remote)
        openai = OpenAIModel("scripted", api_base=f"{model.url}/v1", api_key="none")
        agent = ToolCallingAgent(tools=[*tools], model=openai, verbosity_level=-1)
        await asyncio.to_thread(agent.run, "Do it.")
        outcome.declared = [one["function"] for one in model.heard[0]["tools"]]
        outcome.read = [re.sub(r"^Observation:\s*", "", one) for one in _list_observations(model.heard[-1])]
    # The same calls in code that a model writes.
    code = [f"<code>\nprint({name}(**{given!r}))\n</code>" for turn in turns for name, given in turn]
    with provider(lines(*code, "<code>\nfinal_answer('done')\n</code>")) as model:
        openai = OpenAIModel("scripted", api_base=f"{model.url}/v1", api_key="none")
        writer = CodeAgent(tools=[*build_tools_sync(remote)], model=openai, verbosity_level=-1)
        await asyncio.to_thread(writer.run, "Do it.")
        written = [one.partition("Execution logs:\n")[2] for one in _list_observations(model.heard[-1])]
    assert len(written) == len(outcome.read)
    return outcome


def _list_observations(request: Any) -> list[str]:
    texts = []
    for message in request["messages"]:
        content = message["content"]
        parts = [content] if isinstance(content, str) else [one["text"] for one in content if one["type"] == "text"]
        texts += [one for one in parts if one.startswith("Observation:") or "\nError:\n" in one]
    return texts


if __name__ == "__main__":
    tell(converse, deferral=None, is_sync=True)
