"""The story with AG2, whose model is behind chat completions on loopback and whose human answers a hook."""

from __future__ import annotations

from typing import Any

from ag2 import Agent
from ag2.config import OpenAIConfig
from ag2.events import HumanInputRequest
from story import Calls, Current, Decide, Outcome, tell

from examples.scripted_model import lines, provider
from toolwire.adapters.ag2 import Deferral, build_tools


async def converse(remote: Any, turns: list[Calls], decide: Decide | None) -> Outcome:
    outcome = Outcome()

    def answer(request: HumanInputRequest) -> str:
        outcome.asked.append(request.content)
        return "Y" if decide is not None and decide(request.content) else "n"

    with provider(lines(*turns, "done")) as model:
        config = OpenAIConfig(model="scripted", base_url=f"{model.url}/v1", api_key="none", streaming=False)
        tools = build_tools(remote, deferral=Current.deferral)
        agent = Agent("desk", prompt="Help.", config=config, tools=tools, hitl_hook=answer)
        await agent.ask("Do it.")
        outcome.read = [_read(one["content"]) for one in model.heard[-1]["messages"] if one["role"] == "tool"]
        outcome.declared = [one["function"] for one in model.heard[0]["tools"]]
    return outcome


def _read(content: Any) -> str:
    return content if isinstance(content, str) else "".join(one["text"] for one in content)


if __name__ == "__main__":
    tell(converse, deferral=Deferral)
