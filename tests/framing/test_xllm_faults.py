"""What is wrong with an x-llm is said where it stands, whatever else stands there."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.framing.xllm_faults import check_llm_json, check_operation, check_root


def list_faults(slips: Any) -> list[tuple[str, str, str]]:
    return [("/".join(map(str, slip.path)), slip.severity, slip.rule) for slip in slips]


@pytest.mark.requirement("XL-060", "XL-074", "XL-075", "XL-077")
@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"rateLimit": {"max": 1, "window": 60}}, ("rateLimit/window", "error", "XL-060")),
        ({"rateLimit": {"max": 1, "window": "1w"}}, ("rateLimit/window", "error", "XL-060")),
        ({"rateLimit": {"window": "1m"}}, ("rateLimit", "error", "XL-060")),
        ({"result": {"fields": "/a"}}, ("result/fields", "error", "XL-074")),
        ({"result": {"fields": ["/a", "b"]}}, ("result/fields/1", "error", "XL-074")),
        ({"result": {"maxItems": 0}}, ("result/maxItems", "error", "XL-074")),
        ({"result": 7}, ("result", "error", "XL-074")),
        ({"next": {}}, ("next", "error", "XL-075")),
        ({"next": [{"when": "later"}]}, ("next/0", "error", "XL-075")),
        ({"next": [7]}, ("next/0", "error", "XL-075")),
        ({"next": [{"operationId": "a", "args": {"b": 1}}]}, ("next/0/args", "error", "XL-075")),
        ({"idempotencyKey": "two words"}, ("idempotencyKey", "error", "XL-077")),
    ],
)
def test_x_llm_fault_of_an_operation_is_reported_at_its_place(
    data: dict[str, Any], fault: tuple[str, str, str]
) -> None:
    assert list_faults(check_operation(data)) == [fault]


@pytest.mark.requirement("XL-020", "XL-021", "XL-030", "XL-036")
def test_x_llm_that_is_no_object_is_one_fault() -> None:
    assert list_faults(check_operation("yes")) == [("", "error", "XL-036")]
    assert list_faults(check_operation(False)) == []
    assert list_faults(check_root([])) == [("", "error", "XL-030")]
    assert list_faults(check_llm_json(7)) == [("", "error", "XL-020")]
    assert list_faults(check_llm_json({"openapi": "/o.json", "auth": {}})) == [("auth", "error", "XL-021")]
