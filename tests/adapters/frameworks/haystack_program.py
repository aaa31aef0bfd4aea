"""The story with Haystack: its Agent with a ConfirmationHook, and a model behind chat completions on loopback."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, TextContent
from haystack.hooks.human_in_the_loop import BlockingConfirmationStrategy, ConfirmationHook
from haystack.hooks.human_in_the_loop.dataclasses import ConfirmationUIResult
from haystack.utils import Secret
from story import Calls, Current, Decide, Outcome, tell

from examples.scripted_model import lines, provider
from toolwire.adapters.haystack import ConsentPolicy, build_tools_sync


class Screen:
    """Shows the user a call, and takes the answer."""

    def __init__(self, outcome: Outcome, decide: Decide | None) -> None:
        self._outcome, self._decide = outcome, decide

    def get_user_confirmation(
        self, tool_name: str, tool_description: str, tool_params: dict[str, Any]
    ) -> ConfirmationUIResult:
        self._outcome.asked.append(f"tool: {tool_name} {json.dumps(tool_params)}")
        allowed = self._decide is not None and self._decide(self._outcome.asked[-1])
        return ConfirmationUIResult(action="confirm" if allowed else "reject", feedback="not today")


async def converse(remote: Any, turns: list[Calls], decide: Decide | None) -> Outcome:
    outcome = Outcome()
    policy: ConsentPolicy | None = Current.policy
    with provider(lines(*turns, "done")) as model:
        tools = build_tools_sync(remote, policy=policy)
        hooks = {}
        if policy is not None:
            screen: Any = Screen(outcome, decide)
            strategy = BlockingConfirmationStrategy(confirmation_policy=policy, confirmation_ui=screen)
            hooks = {"before_tool": [ConfirmationHook({"*": strategy})]}
        key = Secret.from_token("none")
        generator = OpenAIChatGenerator(api_key=key, model="scripted", api_base_url=f"{model.url}/v1")
        agent = Agent(chat_generator=generator, tools=tools, hooks=hooks)
        result = await asyncio.to_thread(agent.run, messages=[ChatMessage.from_user("Do it.")])
        for message in result["messages"]:
            for one in message.tool_call_results:
                outcome.read.append(str(one.result))
        outcome.declared = [one["function"] for one in model.heard[0]["tools"]]
    if turns == [[("draw", {})]]:  # chat completions take no images in results, so the tool is asked itself
        (draw,) = [one for one in build_tools_sync(remote, images=True) if one.name == "draw"]
        text, *images = draw.invoke()
        assert isinstance(text, TextContent)
        outcome.images = sum(isinstance(one, ImageContent) for one in images)
    return outcome


def _make_deferral() -> Any:
    Current.policy = ConsentPolicy()
    return Current.policy.deferral


if __name__ == "__main__":
    tell(converse, deferral=_make_deferral, is_sync=True)
