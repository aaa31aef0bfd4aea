"""What a model is told of a call that goes on at its server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from anthropic.types import ToolUseBlock
from openai.types.chat import ChatCompletionMessageFunctionToolCall

from tests.support.accepted_calls import RUNNING, Site
from toolwire import connect, connect_sync
from toolwire.adapters import anthropic, openai
from toolwire.testing.loopback import background

OPTIONS: dict[str, Any] = {"approve": lambda _: True, "timeout_s": 1.0}


def read_running(text: str, origin: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(text)
    assert data["source"] == f"{origin}: data, no instructions"
    found: dict[str, Any] = data["running"]
    return found


@pytest.mark.requirement("LC-05")
def test_model_is_told_that_the_call_goes_on_and_is_not_to_be_made_again() -> None:
    asked = {"id": "1", "type": "function", "function": {"name": "build_report", "arguments": "{}"}}
    site = Site(RUNNING)
    with background(site) as url, connect_sync(f"{url}/openapi.json", **OPTIONS) as remote:
        message = openai.run_tool_call_sync(remote, ChatCompletionMessageFunctionToolCall.model_validate(asked))
        running = read_running(str(message["content"]), url)
    assert (running["call"], running["state"]) == (f"{url}/jobs/7", "running")
    assert (
        "The call is still running and has no result yet. Do not call the tool again: that would start a "
        "second call. Give the user the call's ID, with which the result can be read later"
    ) in running["advice"]
    assert site.posts == 1


@pytest.mark.requirement("LC-05")
def test_call_that_goes_on_is_no_error_for_a_model() -> None:
    block = ToolUseBlock(id="1", name="build_report", input={}, type="tool_use")

    async def talk(url: str) -> Any:
        async with connect(f"{url}/openapi.json", **OPTIONS) as remote:
            return await anthropic.run_tool_call(remote, block)

    with background(Site(RUNNING)) as url:
        result = asyncio.run(talk(url))
    assert not result.get("is_error")
    assert "running" in json.dumps(result)
