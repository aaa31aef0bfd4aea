"""A tool keeps state between two calls under a handle that it gives to one user; there is no hidden session."""

from __future__ import annotations

from secrets import token_urlsafe

import pytest

from toolwire import ApiKey, Context, Problem, Secret, ToolError, Toolkit, Value, asgi, connect_sync
from toolwire.testing.loopback import background


@pytest.mark.requirement("OQ-2")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_handle_of_one_user_is_refused_for_another_in_every_protocol(protocol: str) -> None:
    kit = Toolkit("Forms")
    titles: dict[tuple[str, str], str] = {}

    @kit.tool(approval="auto")
    def begin(title: str, context: Context) -> str:
        """Begin a form; the handle is for the next step."""
        handle = token_urlsafe(18)
        titles[context.principal, handle] = title
        return handle

    @kit.tool(approval="auto")
    def send(form: str, context: Context) -> str:
        """Send a form."""
        title = titles.pop((context.principal, form), None)
        if title is None:
            raise ToolError("There is no such form: begin one.")
        return title

    keys = [ApiKey(key=Secret(name), name=name) for name in ("ada", "bob")]
    with (
        background(asgi(kit, api_keys=keys)) as url,
        connect_sync(url, protocol=protocol, api_key="ada", approve=lambda _: True) as ada,
        connect_sync(url, protocol=protocol, api_key="bob", approve=lambda _: True) as bob,
    ):
        begun = ada.call("begin", {"title": "Tax"})
        assert isinstance(begun, Value)
        refused = bob.call("send", {"form": begun.value})
        assert isinstance(refused, Problem)
        assert "no such form" in refused.message
        assert ada.call("send", {"form": begun.value}) == Value("Tax")
