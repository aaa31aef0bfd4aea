"""Definitions, their digests, what a change means, and the lock that pins them."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from toolwire.consent import DefinitionLock, read_lock, write_lock
from toolwire.consent.tool_definition import (
    build_definition,
    compute_digest,
    definition_hash,
    find_changes,
    overall_direction,
    to_plain_json,
)
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Cost, RateLimit, Tool

PARAMETERS = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TOOL = Tool(name="x", toolkit="K", approval=Approval.PER_CALL, scopes=("r", "w"), input_schema=PARAMETERS)
URL = "https://a.example"


def schema(**properties: Any) -> dict[str, Any]:
    return {**PARAMETERS, "properties": properties}


@pytest.mark.requirement("D-04")
@pytest.mark.parametrize(
    ("change", "direction"),
    [
        ({"description": "New."}, "same"),
        ({"approval": Approval.AUTO}, "wider"),
        ({"approval": Approval.DENY}, "narrower"),
        ({"destructive": True}, "wider"),
        ({"blanket_allowed": True}, "wider"),
        ({"safe": True}, "narrower"),
        ({"scopes": ("r", "w", "admin")}, "wider"),
        ({"scopes": ("r",)}, "narrower"),
        ({"cost": Cost.PAID}, "wider"),
        ({"rate_limit": RateLimit(max=1, window="1m")}, "narrower"),
        ({"input_schema": schema(a={"type": "string"}, b={})}, "wider"),
        ({"input_schema": schema()}, "narrower"),
        ({"input_schema": schema(a={"type": "string", "description": "An a."})}, "same"),
        ({"input_schema": schema(a={})}, "wider"),
        ({"input_schema": {"properties": {"a": True}}}, "wider"),
        ({"hints": {"openapi": {}}}, "wider"),
    ],
)
def test_each_definition_change_is_classified_as_wider_or_narrower(change: dict[str, Any], direction: str) -> None:
    before, after = build_definition(TOOL), build_definition(replace(TOOL, **change))
    (found,) = find_changes(before, after)
    assert (found.part, found.direction) == (next(iter(change)), direction)
    assert definition_hash(before) != definition_hash(after)
    assert found.sentence.startswith(f"{found.part} ({direction}): ")


@pytest.mark.parametrize(
    ("limit", "direction"),
    [
        (RateLimit(max=30, window="1m"), "wider"),
        (RateLimit(max=10, window="30s"), "wider"),
        (RateLimit(max=10, window="2m"), "narrower"),
        (None, "wider"),
    ],
)
def test_a_limit_is_wider_where_more_calls_fit_in_the_same_time(limit: RateLimit | None, direction: str) -> None:
    limited = replace(TOOL, rate_limit=RateLimit(max=10, window="1m"))
    (found,) = find_changes(build_definition(limited), build_definition(replace(limited, rate_limit=limit)))
    assert found.direction == direction


@pytest.mark.requirement("XL-047")
@pytest.mark.parametrize("change", [{"target": "GET /other"}, {"credential": "oauth2"}])
def test_change_of_target_or_credential_is_a_wider_definition(change: dict[str, str]) -> None:
    (found,) = find_changes(build_definition(TOOL), build_definition(TOOL, **change))
    assert found.direction == "wider"


def test_direction_of_several_changes_is_the_widest() -> None:
    wide = build_definition(replace(TOOL, description="New.", destructive=True, safe=True))
    assert overall_direction(find_changes(build_definition(TOOL), wide)) == "wider"
    narrow = build_definition(replace(TOOL, description="New.", safe=True))
    assert overall_direction(find_changes(build_definition(TOOL), narrow)) == "narrower"
    assert overall_direction(()) == "same"


def test_change_that_cannot_be_read_is_a_wider_one() -> None:
    (change,) = find_changes({"rate_limit": "often"}, {"rate_limit": "seldom"})
    assert change.direction == "wider"


def test_lock_is_sorted_with_one_part_on_each_line() -> None:
    text = write_lock(DefinitionLock().with_connection(URL, [build_definition(TOOL)]))
    assert text.startswith('{\n "connections": {\n  "https://a.example": {\n')
    names = [line.split('"')[1] for line in text.splitlines() if line.startswith('     "')]
    assert len(names) > 3
    assert names == sorted(names)


@pytest.mark.requirement("XL-050")
def test_digest_is_that_of_canonical_json() -> None:
    assert compute_digest({"b": [1], "a": "\u00fc"}) == sha256('{"a":"\u00fc","b":[1]}'.encode()).hexdigest()


def test_equal_data_has_the_same_plain_json() -> None:
    assert to_plain_json({"b": frozenset({"y", "x"}), "a": (1, Cost.FREE, b"\x01")}) == {
        "b": ["x", "y"],
        "a": [1, "free", "01"],
    }
    assert to_plain_json({"limit": RateLimit(max=1, window="1m"), "other": object()}) == {
        "limit": {"max": 1, "window": "1m"},
        "other": "object",
    }


@pytest.mark.requirement("D-04")
def test_definition_lock_reports_added_removed_and_changed_tools() -> None:
    other = replace(TOOL, name="y")
    lock = read_lock(
        write_lock(DefinitionLock().with_connection(URL, [build_definition(TOOL), build_definition(other)]))
    )
    assert lock.find_differences(URL, [build_definition(other), build_definition(TOOL)]) == ()
    found = lock.find_differences(
        URL, [build_definition(replace(TOOL, hint="!")), build_definition(replace(TOOL, name="z"))]
    )
    assert [(one.tool, one.what, one.direction) for one in found] == [
        ("K.x@1.0.0", "changed", "same"),
        ("K.y@1.0.0", "removed", "narrower"),
        ("K.z@1.0.0", "added", "wider"),
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"lock": 2, "connections": {}}', '{"lock": 1, "connections": {"u": 7}}']
)
def test_invalid_lock_file_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        read_lock(text)


def test_lock_file_edited_by_hand_is_refused() -> None:
    text = write_lock(DefinitionLock().with_connection(URL, [build_definition(TOOL)]))
    with pytest.raises(DefinitionError, match="is damaged at"):
        read_lock(text.replace('"per-call"', '"auto"'))
