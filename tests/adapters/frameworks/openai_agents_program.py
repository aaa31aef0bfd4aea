"""The story with the OpenAI Agents SDK, whose model is behind chat completions on loopback."""

from __future__ import annotations

from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI
from story import Calls, Current, Decide, Outcome, tell

from examples.scripted_model import lines, provider
from toolwire.adapters.deferral import Deferral
from toolwire.adapters.openai_agents import build_tools, describe_question

set_tracing_disabled(disabled=True)


async def converse(remote: Any, turns: list[Calls], decide: Decide | None) -> Outcome:
    outcome = Outcome()
    with provider(lines(*turns, "done")) as model:
        client = AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none")
        tools = build_tools(remote, images=True, deferral=Current.deferral)
        agent = Agent(name="desk", model=OpenAIChatCompletionsModel("scripted", client), tools=tools)
        result = await Runner.run(agent, "Do it.")
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                question = Current.deferral.find_question(item.raw_item.call_id)
                outcome.asked.append(str(describe_question(question)["text"]))
                (state.approve if decide and decide(outcome.asked[-1]) else state.reject)(item)
            result = await Runner.run(agent, state)
        for message in model.heard[-1]["messages"]:
            if message["role"] == "tool":
                content = message["content"]
                outcome.read.append(content if isinstance(content, str) else content[0]["text"])
        for item in result.to_input_list():  # as the Responses API gets it; chat completions have no place for images
            if item.get("type") == "function_call_output" and not isinstance(item["output"], str):
                outcome.images += sum(one["type"] == "input_image" for one in item["output"])
        outcome.declared = [one["function"] for one in model.heard[0]["tools"]]
    if turns == [[("look", {})]] and decide is None:
        outcome.read.append(await stream(tools))
    return outcome


async def stream(tools: Any) -> str:
    """Return what a tool gives to a run whose events are streamed."""
    model = ScriptedModel([[function_call("look", {}, call_id="s1")], [assistant_message("done")]])
    streamed = Runner.run_streamed(Agent(name="desk", model=model, tools=tools), "Look.")
    outputs = [
        str(event.item.output)
        async for event in streamed.stream_events()
        if event.type == "run_item_stream_event" and event.name == "tool_output"
    ]
    assert streamed.final_output == "done"
    return outputs[0]


if __name__ == "__main__":
    tell(converse, deferral=Deferral)
