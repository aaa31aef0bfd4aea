"""What one process tells another of its lists: which have changed, and for whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.codec import NO_REMOTE_CHANGES, RemoteChanges
from toolwire.core.model import Tool
from toolwire.core.server_features import PromptDefinition, ResourceDefinition, ServerFeatures
from toolwire.protocols.mcp.remote_changes import name_list_changes, read_remote_changes

pytestmark = pytest.mark.requirement("MC-06", "ST-01")


def build(*tools: Tool) -> Catalog:
    return Catalog(title="T", tools=tuple(sorted(tools, key=lambda one: one.name)))


def test_a_list_is_named_with_the_scopes_of_what_changed_in_it() -> None:
    plain, staff = Tool(name="a"), Tool(name="b", scopes=("staff", "desk"))
    assert name_list_changes(build(plain), build(plain)) == []
    assert name_list_changes(build(plain), build(plain, staff)) == [" toolsListChanged desk staff"]
    assert name_list_changes(build(plain, staff), build(replace(plain, description="x"))) == [
        " toolsListChanged",
        " toolsListChanged desk staff",
    ]
    moved = name_list_changes(build(staff), build(replace(staff, scopes=("desk",))))
    assert moved == [" toolsListChanged desk", " toolsListChanged desk staff"]


def test_prompts_and_resources_are_lists_of_their_own() -> None:
    offered = ServerFeatures(
        (ResourceDefinition(uri="notes://a", reader=Tool(name="r", scopes=("x",))),),
        (PromptDefinition(reader=Tool(name="p", scopes=("y",))),),
    )
    assert name_list_changes(build(), replace(build(), features=offered)) == [
        " promptsListChanged y",
        " resourcesListChanged x",
    ]


def test_a_change_of_very_many_scopes_or_of_the_order_alone_is_told_to_all() -> None:
    many = [Tool(name=f"t{number}", scopes=(f"s{number}",)) for number in range(21)]
    assert name_list_changes(build(), build(*many)) == [" toolsListChanged"]
    assert name_list_changes(build(), build(Tool(name="t", scopes=("s" * 1_000,)))) == [" toolsListChanged"]
    readers = [ResourceDefinition(uri=f"notes://{one}", reader=Tool(name=one, scopes=("x",))) for one in "ab"]
    orders = [replace(build(), features=ServerFeatures(tuple(one))) for one in (readers, readers[::-1])]
    assert name_list_changes(*orders) == [" resourcesListChanged"]


def test_a_client_hears_of_what_its_scopes_permit_and_of_lists_that_exist() -> None:
    names = [" toolsListChanged staff", " promptsListChanged", " newListChanged", "notes://a"]
    message = read_remote_changes(names, lambda scopes: not scopes, has_gap=False)
    assert message == RemoteChanges(frozenset({"promptsListChanged"}), frozenset({"notes://a"}))
    assert message.has_list("promptsListChanged")
    assert not message.has_list("toolsListChanged")
    assert message.has_resource("notes://a")
    assert not message.has_resource("notes://b")


def test_after_a_gap_everything_may_have_changed() -> None:
    message = read_remote_changes([], lambda _: False, has_gap=True)
    assert message.has_list("toolsListChanged")
    assert message.has_resource("notes://b")
    assert not NO_REMOTE_CHANGES.has_resource("notes://b")
