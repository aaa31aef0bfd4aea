"""``--returns`` marks what tools return, so that a session that has read both kinds asks before anything leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from examples.scripted_model import lines, provider
from tests.support.listed_tools import ListedTools, list_tool
from toolwire import connect_sync
from toolwire.hosting import ServeSettings
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.testing import background

pytestmark = [pytest.mark.requirement("QF-06"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]
MARKS = ("--returns", "read_mail=private", "--returns", "clock=untrusted")


def list_tools() -> ListedTools:
    names = ("read_mail", "clock")
    fetch = list_tool("fetch", names=("url",), readOnlyHint=True)
    return ListedTools(*(list_tool(name, readOnlyHint=True) for name in names), fetch)


def test_chat_asks_before_data_leaves_after_both_marked_tools(terminal: Callable[..., Any]) -> None:
    fetch = [("fetch", {"url": "https://a.example"})]
    turns = ([("read_mail", {})], fetch, [("clock", {})], fetch, "Done.")
    with background(list_tools()) as site, provider(lines(*turns)) as model:
        at = terminal(
            "chat", f"{site}/mcp", "--agree", *MARKS, "--base-url", f"{model.url}/v1", "--model", "m", NO_COLOR="1"
        )
        at.wait_for(b"you> ")
        at.type("Go on")
        at.wait_for(b"[y/N] ")
        assert b"takes a destination: url" in at.shown
        assert b"clock of" in at.shown
        at.type("n")
        at.wait_for(b"Done.")
        at.type("/quit")
        assert at.end() == 0
        assert at.shown.count(b"[y/N]") == 1, "the first fetch had read one kind only"


def test_served_tools_are_marked_for_each_caller() -> None:
    with background(list_tools()) as site:
        settings = ServeSettings(targets=[f"{site}/mcp"], agree=True, returns=("*=private", "clock=untrusted"))
        with background(build_app(settings, open_toolboxes(settings))) as url:
            asked: list[str] = []
            with connect_sync(
                url,
                protocol="mcp",
                agree=lambda _: True,
                approve=lambda question: asked.append(" ".join(question.reasons)) or True,
            ) as remote:
                assert remote.call("fetch", {"url": "https://a.example"}).ok
                assert not asked
                assert remote.call("clock").ok
                assert remote.call("fetch", {"url": "https://a.example"}).ok
            (question,) = asked
            assert "takes a destination: url" in question


@pytest.mark.parametrize("text", ["private", "read_mail=secret", "=private"])
def test_mark_that_cannot_be_read_is_refused(toolwire: Callable[..., Any], text: str) -> None:
    outcome = toolwire("serve", "http://127.0.0.1:9", "--returns", text)
    assert outcome.code == 2
    assert "is not valid. Write NAME=private or NAME=untrusted, such as read_mail=private" in outcome.err


def test_marks_without_another_server_are_refused(toolwire: Callable[..., Any], desk: Any) -> None:
    outcome = toolwire("serve", desk, "--returns", "add=private")
    assert outcome.code == 2
    assert "--returns" in outcome.err
