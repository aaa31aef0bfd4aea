"""An argument that makes a server see another request: the operation is not known to only read."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.core.model import Approval, Call, Problem
from toolwire.core.selection import Selection
from toolwire.protocols.openapi import CODEC
from toolwire.protocols.openapi.request.override_names import is_override

pytestmark = pytest.mark.requirement("D-11", "XL-044")

TEXT = {"type": "string"}


def tool(peer: Any, document: Any) -> Any:
    found = peer(document)
    (tool,) = found.catalog.tools
    return tool, "\n".join(found.memo.findings)


@pytest.mark.requirement("AT-21")
@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("header", "X-HTTP-Method-Override"),
        ("header", "x-http-method"),
        ("header", "X-Method-Override"),
        ("header", "X_HTTP_METHOD_OVERRIDE"),
        ("header", "X-Original-URL"),
        ("header", "X-Rewrite-URL"),
        ("header", "X-Original-Method"),
        ("header", "X-Real-IP"),
        ("query", "_method"),
        ("query", "_Method"),
        ("query", "X-HTTP-Method-Override"),
    ],
)
@pytest.mark.parametrize("method", ["get", "delete"])
def test_tool_with_an_argument_that_overrides_the_method_asks_each_time(
    peer: Any, one: Any, place: str, name: str, method: str
) -> None:
    parameters = [{"name": name, "in": place, "schema": TEXT}]
    policy = {"approval": "auto", "blanketApprovalAllowed": True}
    found, findings = tool(peer, one(method=method, parameters=parameters, **{"x-llm": policy}))
    assert (found.safe, found.idempotent, found.approval, found.blanket_allowed) == (
        False,
        False,
        Approval.PER_CALL,
        False,
    )
    assert f"{name} can make it another request than a {method.upper()}: each call asks" in findings


@pytest.mark.requirement("AT-21")
@pytest.mark.parametrize(
    "parameter",
    [
        {"name": "all", "in": "query", "schema": {"type": "object", "properties": {"_method": TEXT}}},
        {"name": "all", "in": "query", "schema": {"allOf": [{"properties": {"a": TEXT, "_method": TEXT}}]}},
    ],
)
def test_object_property_that_overrides_the_method_makes_a_tool_unsafe(peer: Any, one: Any, parameter: Any) -> None:
    found, _ = tool(peer, one(parameters=[parameter], **{"x-llm": {"approval": "auto"}}))
    assert (found.safe, found.approval) == (False, Approval.PER_CALL)


def test_fixed_query_that_overrides_the_method_makes_a_tool_unsafe(peer: Any, one: Any) -> None:
    found, _ = tool(peer, one(path="/x?%5Fmethod=DELETE", **{"x-llm": {"approval": "auto"}}))
    assert (found.safe, found.approval) == (False, Approval.PER_CALL)


def test_key_of_an_open_object_cannot_override_the_method(peer: Any, one: Any) -> None:
    parameter = {"name": "all", "in": "query", "schema": {"type": "object"}}
    found = peer(one(parameters=[parameter], **{"x-llm": {"approval": "auto"}}))
    with pytest.raises(StopIteration) as ended:
        next(CODEC.send(found, Call(found.catalog.tools[0], {"all": {"a": "1", "_METHOD": "DELETE"}})))
    assert isinstance(ended.value.value, Problem)
    assert "another method or path" in ended.value.value.message


@pytest.mark.parametrize("name", ["method", "X-Request-Id", "override", "X-Method-Version", "forwarded", "x", ""])
def test_ordinary_name_is_no_override(name: str) -> None:
    assert not is_override(name)


def test_ordinary_argument_keeps_the_tool_safe(peer: Any, one: Any) -> None:
    parameters = [{"name": "method", "in": "query", "schema": TEXT}, {"name": "X-A", "in": "header", "schema": TEXT}]
    found, _ = tool(peer, one(parameters=parameters, **{"x-llm": {"approval": "auto"}}))
    assert (found.safe, found.approval) == (True, Approval.AUTO)


def test_safe_only_selection_excludes_tools_with_a_method_override(one: Any, drive: Any, site: Any) -> None:
    document = one(parameters=[{"name": "_method", "in": "query", "schema": TEXT}])
    assert CODEC.find_selected is not None
    selection = Selection(safe_only=True)
    finding = drive(
        CODEC.find_selected("https://recipes.test/openapi.json", selection), site({"/openapi.json": document})
    )
    assert not finding.peer.catalog.tools
