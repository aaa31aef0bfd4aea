"""The user flow of the OpenTools proposal: "Find me a good pasta recipe and save it".

The model is a script behind a real endpoint of OpenAI's protocol; the SDK, the tools and the consent are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable

from scripted_model import CHOICE, WISH, pasta, provider

from toolwire import SyncRemote
from toolwire.adapters.conversation import ModelCall, ModelResult, ModelTurn, converse
from toolwire.adapters.dialects import Provider
from toolwire.adapters.openai import ChatModel
from toolwire.adapters.tool_declarations import run_named_call_sync
from toolwire.cli.terminal.screen import escape_lines, escaped

_SHOWN = 100


def find_and_save(remote: SyncRemote, show: Callable[[str], object]) -> None:
    """Say the wish and the choice to a model that has the tools of ``remote``; ``show`` is given each line."""

    def run_call(call: ModelCall) -> ModelResult:
        result = run_named_call_sync(remote, Provider.OPENAI, call.name, call.arguments)
        show(f"  <- {escaped(result.text[:_SHOWN])}{'...' if len(result.text) > _SHOWN else ''}")
        return result

    def show_turn(turn: ModelTurn) -> None:
        for line in escape_lines(turn.text).splitlines():
            show(f"  model> {line}")
        for call in turn.calls:
            show(f"  -> {escaped(call.name)} {escaped(str(call.arguments))}")

    with provider(pasta) as endpoint:
        system = "You help one person with the tools you have."
        model = ChatModel(remote, model="scripted", system=system, base_url=f"{endpoint.url}/v1", key="none")
        for said in (WISH, CHOICE):
            show(f"  you> {said}")
            converse(model, said, run_call, show_turn)
