"""Advice on showing results and on what follows: harmless when it is bad, and worked out only of this call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.model import Tool
from toolwire.framing import xllm
from toolwire.framing.next_steps import NextStep, ResultDisplay, build_display, list_next_steps
from toolwire.protocols.mcp import document as mcp

VALUE = {
    "items": [{"id": 7, "name": "Soup", "photo": "https://a.example/p.png", "bad": "javascript:alert(1)"}],
    "a/b": 1,
}


def tool(**said: Any) -> Tool:
    return Tool(name="search", hints={"x-llm": said})


@pytest.mark.requirement("XL-074")
def test_display_hints_select_texts_urls_and_fields_of_a_result() -> None:
    advice = {
        "render": "card", "title": "/items/0/name", "image": "/items/0/photo", "url": "/items/0/bad",
        "body": "/items/9/name", "fields": ["/a~1b", "/nowhere", 7], "maxItems": 3,
    }  # fmt: skip
    assert build_display(tool(result=advice), VALUE) == ResultDisplay(
        form="card", parts={"title": "Soup", "image": "https://a.example/p.png"}, fields={"/a~1b": 1}, items=3
    )
    assert build_display(tool(result={"render": "carousel"}), VALUE).form == "text"
    assert build_display(Tool(name="x"), VALUE) == ResultDisplay()


@pytest.mark.requirement("XL-075")
def test_next_steps_take_arguments_from_the_call_and_skip_unknown_operations() -> None:
    replies = [
        {"operationId": "save", "when": "One is liked.", "args": {
            "id": "$response.body#/items/0/id", "q": "$request.query.query", "gone": "$response.body#/x",
            "plain": "yes",
        }},
        {"operationId": "unknown"},
        {"operationId": 7},
        "save",
    ]  # fmt: skip
    steps = list_next_steps(tool(next=replies), {"query": "soup"}, VALUE, ["save"])
    assert steps == (
        NextStep(operation="save", when="One is liked.", arguments={"id": 7, "q": "soup", "plain": "yes"}),
    )


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["/a", "$response.body#/a", "http://["]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "operationId", "args"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.requirement("XL-074", "XL-075")
@given(
    st.dictionaries(st.sampled_from(["render", "title", "image", "url", "fields", "maxItems"]), JSON),
    st.lists(JSON, max_size=3),
    JSON,
)
def test_invalid_display_hints_cause_no_error(result: Any, steps: Any, value: Any) -> None:
    for url in ("image", "url"):
        assert build_display(tool(result=result), value).parts.get(url, "http://").startswith(("http://", "https://"))
    list_next_steps(tool(result=result, next=steps), {"a": value}, value, ["a", ""])


@pytest.mark.requirement("XL-037", "XL-076")
def test_x_llm_survives_a_round_trip_through_mcp() -> None:
    reply = {
        "enabled": True, "approval": "auto", "hint": "Use it.", "costIndicator": "credits", "destructive": True,
        "rateLimit": {"max": 3, "window": "1m"}, "blanketApprovalAllowed": True, "idempotent": True,
        "result": {"render": "list"}, "next": [{"operationId": "save"}], "x-mine": {"deep": [1]},
    }  # fmt: skip
    policy = xllm.read(reply)
    before = Tool(name="search", description="Find", hints=policy.build_hints(), **policy.list_tool_members())
    (entry,) = mcp.write(Catalog(title="K", tools=(before,)))
    assert entry["annotations"] == {
        "title": "Find", "readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": True,
    }  # fmt: skip
    (after,) = mcp.read({"name": "K"}, "", [entry]).catalog.tools
    assert xllm.write(after) == xllm.write(before) == reply


@pytest.mark.requirement("XL-075")
@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("$request.body#/deep/0", {"a": "soup"}),
        ("$request.path.query", {"a": "tea"}),
        ("$request.header.query", {"a": "tea"}),
        ("$request.query.other", {}),
        ("$response.header.location", {}),
        ("$url", {}),
        (7, {}),
    ],
)
def test_next_step_expression_is_evaluated_or_its_argument_omitted(expression: Any, found: dict[str, Any]) -> None:
    replies = [{"operationId": "save", "args": {"a": expression}}]
    (step,) = list_next_steps(tool(next=replies), {"query": "tea", "deep": ["soup"]}, VALUE, ["save"])
    assert step.arguments == found


@pytest.mark.requirement("XL-074")
@pytest.mark.parametrize("url", ["http://[", "ftp://a.example/p", "https:", "/p.png"])
def test_only_a_web_address_is_displayed_as_a_url(url: str) -> None:
    assert build_display(tool(result={"image": "/u", "title": "/u"}), {"u": url}).parts == {"title": url}
