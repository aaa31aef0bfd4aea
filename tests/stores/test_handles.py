"""State between two calls is a handle, and a handle is its user's."""

from __future__ import annotations

import pytest

from toolwire import ApiKey, Context, Problem, Secret, ToolError, Toolkit, Value, asgi, connect_sync
from toolwire.stores.handles import Handles
from toolwire.testing.loopback import background

ADA, BOB = Context(principal="ada"), Context(principal="bob")


class Clock:
    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.requirement("OQ-2", "D-31")
def test_a_handle_is_good_for_its_user_alone_until_its_end() -> None:
    clock = Clock()
    handles = Handles(valid_s=60, clock=clock)
    handle = handles.give(ADA, {"step": 1})
    assert handles.find(BOB, handle) is None
    assert handles.end(BOB, handle) is None
    assert handles.find(ADA, handle) == {"step": 1}
    clock.now += 60
    assert handles.find(ADA, handle) is None
    last = handles.give(ADA, {"step": 2})
    assert handles.end(ADA, last) == {"step": 2}
    assert handles.find(ADA, last) is None
    assert len({handles.give(ADA, None) for _ in range(100)}) == 100


@pytest.mark.requirement("OQ-2", "D-34")
def test_the_oldest_handles_make_room() -> None:
    handles = Handles(most=3)
    given = [handles.give(ADA, number) for number in range(5)]
    assert [handles.find(ADA, handle) for handle in given] == [None, None, 2, 3, 4]


@pytest.mark.requirement("OQ-2")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_the_handle_of_one_user_is_refused_for_another_on_every_wire(protocol: str) -> None:
    kit, handles = Toolkit("Forms"), Handles()

    @kit.tool(approval="auto")
    def begin(title: str, context: Context) -> str:
        """Begin a form; the handle is for the next step."""
        return handles.give(context, title)

    @kit.tool(approval="auto")
    def send(form: str, context: Context) -> str:
        """Send a form."""
        title = handles.end(context, form)
        if title is None:
            raise ToolError("There is no such form: begin one.")
        return str(title)

    keys = [ApiKey(key=Secret(name), name=name) for name in ("ada", "bob")]
    with (
        background(asgi(kit, api_keys=keys)) as url,
        connect_sync(url, protocol=protocol, api_key="ada", approve=yes) as ada,
        connect_sync(url, protocol=protocol, api_key="bob", approve=yes) as bob,
    ):
        begun = ada.call("begin", {"title": "Tax"})
        assert isinstance(begun, Value)
        stolen = bob.call("send", {"form": begun.value})
        assert isinstance(stolen, Problem)
        assert "no such form" in stolen.message
        assert ada.call("send", {"form": begun.value}) == Value("Tax")


def yes(_: object) -> bool:
    return True
