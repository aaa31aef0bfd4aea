"""Watched resources: what counts as changed when the server's offer itself changes."""

from __future__ import annotations

import pytest

from toolwire import Toolkit
from toolwire.core.server_features import NO_FEATURES
from toolwire.protocols.mcp.resource_subscriptions import ResourceSubscriptions

pytestmark = pytest.mark.requirement("MC-06")


def build_kit() -> Toolkit:
    kit = Toolkit("Notes")

    @kit.resource("notes://{name}")
    def read_note(name: str) -> str:
        return name

    return kit


def test_resource_of_another_toolkit_at_the_same_uri_counts_as_changed_once() -> None:
    first, second = build_kit(), build_kit()
    first.notify_resource_changed("notes://tea")
    watched = ResourceSubscriptions()
    assert watched.add("notes://tea", first.catalog().features) is None
    assert watched.find_changed(first.catalog().features) == []
    assert watched.find_changed(second.catalog().features) == ["notes://tea"]
    assert watched.find_changed(second.catalog().features) == []


def test_resource_that_is_not_offered_for_a_while_is_told_of_when_it_comes_back() -> None:
    kit = build_kit()
    watched = ResourceSubscriptions()
    assert watched.add("notes://tea", kit.catalog().features) is None
    kit.notify_resource_changed("notes://tea")
    assert watched.find_changed(NO_FEATURES) == []
    assert watched.find_changed(kit.catalog().features) == ["notes://tea"]


def test_many_changes_between_two_looks_are_told_once() -> None:
    kit = build_kit()
    watched = ResourceSubscriptions()
    for uri in ("notes://tea", "notes://trip"):
        assert watched.add(uri, kit.catalog().features) is None
    for _ in range(1_000):
        kit.notify_resource_changed("notes://tea")
    assert watched.find_changed(kit.catalog().features) == ["notes://tea"]
    assert watched.find_changed(kit.catalog().features) == []
