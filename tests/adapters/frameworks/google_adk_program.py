"""The story with Google's ADK: an agent in its runner, whose user confirms by function responses."""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncGenerator
from typing import Any

warnings.simplefilter("ignore")

from google.adk.agents import LlmAgent  # noqa: E402 - its imports warn of what is experimental
from google.adk.models import BaseLlm, LlmResponse  # noqa: E402 - as above
from google.adk.runners import InMemoryRunner  # noqa: E402 - as above
from google.genai import types  # noqa: E402 - as above
from story import Calls, Current, Decide, Outcome, tell  # noqa: E402 - as above

from toolwire.adapters.google_adk import Deferral, build_tools  # noqa: E402 - as above

ASKING = "adk_request_confirmation"


class Scripted(BaseLlm):
    """A model that plays turns, and keeps what it is sent."""

    turns: list[Any]
    requests: list[Any]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(llm_request)
        turn = self.turns.pop(0) if self.turns else "done"
        if isinstance(turn, str):
            parts = [types.Part(text=turn)]
        else:
            parts = [types.Part(function_call=types.FunctionCall(name=name, args=given)) for name, given in turn]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


async def converse(remote: Any, turns: list[Calls], decide: Decide | None) -> Outcome:
    model = Scripted(model="scripted", turns=list(turns), requests=[])
    agent = LlmAgent(name="desk", model=model, tools=[*build_tools(remote, deferral=Current.deferral)])
    runner = InMemoryRunner(agent=agent, app_name="desk")
    session = await runner.session_service.create_session(app_name="desk", user_id="ann")
    outcome = Outcome()
    message = types.Content(role="user", parts=[types.Part(text="Do it.")])
    while True:
        asked, answers = [], {}
        async for event in runner.run_async(user_id="ann", session_id=session.id, new_message=message):
            for part in (event.content.parts or ()) if event.content else ():
                if part.function_call and part.function_call.name == ASKING:
                    asked.append(part.function_call)
                if part.function_response and part.function_response.name != ASKING:
                    answers[part.function_response.id] = json.dumps(part.function_response.response)
        outcome.read += [one for one in answers.values() if "waits for the approval" not in one]
        if not asked:
            break
        parts = []
        for call in asked:
            outcome.asked.append(call.args["toolConfirmation"]["hint"])
            allowed = decide is not None and decide(outcome.asked[-1])
            response = types.FunctionResponse(id=call.id, name=ASKING, response={"confirmed": allowed})
            parts.append(types.Part(function_response=response))
        message = types.Content(role="user", parts=parts)
    declared = model.requests[0].config.tools[0].function_declarations
    outcome.declared = [
        {"name": one.name, "description": one.description, "parameters": one.parameters_json_schema} for one in declared
    ]
    outcome.read = [_unwrap(one) for one in outcome.read]
    return outcome


def _unwrap(text: str) -> str:
    data = json.loads(text)
    return json.dumps(data.get("output", data))


if __name__ == "__main__":
    tell(converse, deferral=Deferral)
