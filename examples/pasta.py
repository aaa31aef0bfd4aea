"""The user flow of the OpenTools proposal: "Find me a good pasta recipe and save it".

The model is a script behind a real endpoint of OpenAI's protocol; the SDK, the tools and the consent are the real ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from scripted_model import Turn, provider

from toolwire import SyncRemote
from toolwire.adapters.conversation import Said, Wanted, converse
from toolwire.adapters.dialects import Provider
from toolwire.adapters.offering import ran_sync
from toolwire.adapters.openai import ChatModel
from toolwire.cli.screen import escaped, escaped_lines

WISH = "Find me a good pasta recipe and save it"
CHOICE = "The first one"
_SHOWN = 100


def find_and_save(remote: SyncRemote, show: Callable[[str], object]) -> None:
    """Say the wish and the choice to a model that has the tools of ``remote``; ``show`` is given each line."""

    def made(call: Wanted) -> str:
        text = ran_sync(remote, Provider.OPENAI, call.name, call.arguments)
        show(f"  <- {escaped(text[:_SHOWN])}{'...' if len(text) > _SHOWN else ''}")
        return text

    def tell(said: Said) -> None:
        for line in escaped_lines(said.text).splitlines():
            show(f"  model> {line}")
        for call in said.calls:
            show(f"  -> {escaped(call.name)} {escaped(str(call.arguments))}")

    with provider(script) as endpoint:
        system = "You help one person with the tools you have."
        model = ChatModel(remote, model="scripted", system=system, base_url=f"{endpoint.url}/v1", key="none")
        for said in (WISH, CHOICE):
            show(f"  you> {said}")
            converse(model, said, made, tell)


def script(body: dict[str, Any]) -> Turn:
    """Return what a sensible model would say after what it has heard."""
    last = body["messages"][-1]
    match last["role"], last["content"]:
        case "user", text if text == WISH:
            return [("searchRecipes", {"query": "pasta", "cuisine": "italian", "maxTime": 60})]
        case "user", _:
            return [("addFavorite", {"recipeId": _found(body)[0]["id"]})]
        case "tool", text if isinstance(found := json.loads(text), list):
            dishes = [f"{number}. {one['name']}, {one['minutes']} minutes" for number, one in enumerate(found, 1)]
            return "\n".join(["I found these. Which one shall I save?", *dishes])
        case _:
            return "Nothing was saved." if '"denied":true' in last["content"] else "It is among your favorites now."


def _found(body: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(next(one["content"] for one in body["messages"] if one["role"] == "tool"))
    return found
