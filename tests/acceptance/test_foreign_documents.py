"""OpenAPI documents of other people's sites, read as tools; and that no door of ours skips consent."""

import inspect
import json
from typing import Any

import pytest

import toolwire
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Peer
from toolwire.core.http import Request, Response
from toolwire.core.model import RateLimit
from toolwire.protocols.openapi import CODEC

SITE = "https://recipes.example"


def find_catalog(document: dict[str, Any]) -> Catalog:
    """What a site offers that has only this document, at the well-known place."""
    flow = CODEC.find(SITE)
    step = flow.send(None)
    for _ in range(10):
        assert isinstance(step, Request)
        here = step.url == f"{SITE}/.well-known/openapi.json"
        answer = Response(200, [(b"content-type", b"application/json")], json.dumps(document).encode())
        try:
            step = flow.send(answer if here else Response(404, [], b""))
        except StopIteration as end:
            peer: Peer = end.value.peer
            return peer.catalog
    raise AssertionError("looking did not end")


def with_policy(policy: Any) -> dict[str, Any]:
    operation = {
        "operationId": "search",
        "summary": "Search",
        "x-llm": policy,
        "responses": {"200": {"description": "."}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Recipes", "version": "1"},
        "x-llm": {"version": "0.1", "name": "Recipes"},
        "paths": {"/search": {"get": operation}},
    }


@pytest.mark.requirement("XL-061")
def test_number_as_rate_limit_means_calls_a_minute():
    (tool,) = find_catalog(with_policy({"rateLimit": 5})).tools
    assert tool.rate_limit == RateLimit(max=5, window="1m")


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "5", 10**7, {"max": 5}, {"max": 5, "window": "1x"}, []])
@pytest.mark.requirement("XL-060", "XL-061", "XL-035")
def test_invalid_rate_limit_becomes_the_default_alone(limit):
    (tool,) = find_catalog(with_policy({"rateLimit": limit, "approval": "auto", "hint": "Use it first."})).tools
    assert (tool.rate_limit, tool.approval) == (RateLimit(max=60, window="1m"), toolwire.Approval.AUTO)
    assert tool.description == "Search\nUse it first."


@pytest.mark.requirement("XL-057")
def test_no_option_of_a_connection_skips_consent():
    skipping = ("yes", "trust", "auto", "force", "skip", "consent", "unsafe", "bypass", "allow_all", "approved")
    for transport in (toolwire.connect, toolwire.connect_sync, toolwire.Remote.call, toolwire.SyncRemote.call):
        for name in inspect.signature(transport).parameters:
            assert not any(word in name for word in skipping), name
    assert inspect.signature(toolwire.connect).parameters["approve"].default is None
