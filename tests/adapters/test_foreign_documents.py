"""What a model is told of tools that someone else described: legal for its provider, and with every name readable."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.provider_rules import faults
from toolwire import Selection, connect_sync
from toolwire.adapters import anthropic, gemini, openai
from toolwire.adapters.dialects import DIALECTS, Provider
from toolwire.adapters.tool_declarations import declare_tools
from toolwire.core.catalog import Catalog
from toolwire.core.model import Cost, RateLimit, Tool

TEXT = {"type": "string"}
ADDRESS = {
    "type": "object",
    "required": ["省", "市"],
    "properties": {"省": TEXT, "市": {**TEXT, "description": "City."}},
}
ARRAYS = {
    "l": {"type": "array"},
    "n": {"type": ["array", "null"]},
    "p": {"type": "array", "prefixItems": [TEXT]},
    "deep": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "array"}}}},
}


def build_catalog(**properties: Any) -> Catalog:
    schema = {"type": "object", "properties": properties}
    return Catalog(title="Site", tools=(Tool(name="t", toolkit="Site", description="A tool.", input_schema=schema),))


@pytest.mark.requirement("O-24")
@pytest.mark.parametrize("provider", list(Provider))
def test_arrays_without_items_are_legal_for_every_provider(provider: Provider) -> None:
    (declared,) = declare_tools(build_catalog(**ARRAYS), provider)
    assert faults(declared.input_schema.schema, provider) == []


@pytest.mark.requirement("O-24")
def test_request_with_more_tools_than_a_provider_takes_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert DIALECTS[Provider.OPENAI].max_tools == 128
    assert DIALECTS[Provider.GEMINI].max_tools == 512
    tools = tuple(Tool(name=f"t{number}", toolkit="Site", input_schema={"type": "object"}) for number in range(129))
    with caplog.at_level(logging.WARNING, "toolwire"):
        declare_tools(Catalog(title="Site", tools=tools[:128]), Provider.OPENAI)
        assert caplog.messages == []
        declare_tools(Catalog(title="Site", tools=tools), Provider.OPENAI)
    assert caplog.messages == [
        "openai takes at most 128 tools in one request, and there are 129: connect with fewer, or filter the list"
    ]


LONG = "It does one thing. " * 300
HINT = "Use it when nothing else helps. " * 60
PLAIN = {"name": "t", "toolkit": "Site", "input_schema": {"type": "object"}}


@pytest.mark.requirement("O-24")
@pytest.mark.parametrize("provider", list(Provider))
@pytest.mark.parametrize(("text", "hint"), [(LONG, ""), (LONG, HINT), ("Short.", HINT), (LONG, "Use it.")])
def test_no_description_is_longer_than_its_provider_takes(provider: Provider, text: str, hint: str) -> None:
    limit = RateLimit(max=30, window="1m")
    tool = Tool(**PLAIN, description=text, hint=hint, rate_limit=limit, cost=Cost.CREDITS)
    (declared,) = declare_tools(Catalog(title="Site", tools=(tool,)), provider)
    most = 1_024 if provider is Provider.OPENAI else 6_000
    assert len(declared.description) <= most
    assert declared.description.endswith(" (at most 30 calls in 1m) (costs: credits)")
    assert declared.description.startswith(("It does one thing. It does", "Short.\nUse it when"))
    assert not hint or "\nUse it" in declared.description, "the hint says when to use the tool: it stays"


@pytest.mark.requirement("O-25")
@pytest.mark.parametrize("provider", list(Provider))
def test_names_that_a_provider_refuses_stay_readable_at_every_depth(provider: Provider) -> None:
    union = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    (declared,) = declare_tools(build_catalog(address=ADDRESS, 名前=TEXT, 値=union), provider)
    wire = json.dumps(declared.input_schema.schema, ensure_ascii=False)
    for name in ("省", "市", "名前", "値"):
        assert name in wire, wire
    assert "City." in wire
    assert not any(name in keys for keys in [declared.input_schema.schema["properties"]] for name in ("名前", "値"))


@pytest.mark.requirement("O-25")
def test_title_of_a_renamed_argument_reaches_gemini() -> None:
    (declared,) = declare_tools(build_catalog(p_1={**TEXT, "title": "X-Request-Name"}), Provider.GEMINI)
    assert declared.input_schema.schema["properties"]["p_1"] == {**TEXT, "description": "X-Request-Name"}


@pytest.mark.requirement("O-34")
def test_tool_that_cannot_be_called_is_not_declared(caplog: pytest.LogCaptureFixture) -> None:
    bad = Tool(name="bad", toolkit="Site", input_schema={"type": "object", "properties": {"v": {"type": "date"}}})
    good = Tool(name="good", toolkit="Site", input_schema={"type": "object", "properties": {}})
    with caplog.at_level(logging.WARNING, "toolwire"):
        declared = declare_tools(Catalog(title="Site", tools=(bad, good)), Provider.OPENAI)
    assert [one.name for one in declared] == ["good"]
    assert "bad is not declared to the model, because it cannot be called" in caplog.text


@pytest.mark.requirement("FU-53")
def test_model_and_developer_read_that_nobody_was_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paths = {"/p": {"post": {"operationId": "p", "responses": {"200": {"description": "ok"}}}}}
    document = {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "paths": paths}
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document | {"servers": [{"url": "http://127.0.0.1:9"}]}))
    reply = {"id": "1", "type": "function", "function": {"name": "p", "arguments": "{}"}}
    with (
        connect_sync(str(file), selection=Selection(include="all")) as remote,
        caplog.at_level(logging.WARNING, "toolwire"),
    ):
        texts = [
            str(openai.run_tool_call_sync(remote, reply)["content"]),
            str(anthropic.run_tool_call_sync(remote, {"id": "1", "name": "p", "input": {}, "type": "tool_use"})),
            str(gemini.run_tool_call_sync(remote, {"name": "p", "args": {}})),
        ]
    for text in texts:
        assert "no approver is configured, so no user was asked" in text
    assert "p needs approval, and no approver is configured. Connect with approve=... to be asked." in caplog.text
