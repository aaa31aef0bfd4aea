"""The numbers of progress: as the tool says them, and each larger than the one before."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.core.model import PROGRESS_EVENT, Json, Progress
from toolwire.protocols.mcp.progress import Notifications

pytestmark = pytest.mark.requirement("MC-06")


def write_all(*values: Json) -> list[dict[str, Any]]:
    notifications = Notifications("token")
    return [dict(notifications.write(Progress(value, PROGRESS_EVENT)) or {})["params"] for value in values]


def test_numbers_from_zero_keep_their_total() -> None:
    said = write_all(*({"progress": one, "total": 3} for one in range(4)))
    assert [(one["progress"], one["total"]) for one in said] == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_number_said_again_grows_so_little_that_its_total_stands() -> None:
    said = write_all(*({"progress": 1, "total": 3, "message": text} for text in "abc"), {"progress": 2, "total": 3})
    numbers = [one["progress"] for one in said]
    assert numbers == sorted(set(numbers))
    assert [round(one, 9) for one in numbers] == [1, 1, 1, 2]
    assert [(one["total"], one.get("message")) for one in said] == [(3, "a"), (3, "b"), (3, "c"), (3, None)]


@pytest.mark.parametrize("last", [5, 5.5, 2**60, 10**400, -3, 1.7e308])
def test_a_smaller_number_and_a_text_still_grow(last: float) -> None:
    said = write_all({"progress": last, "total": last}, {"progress": last - 1, "total": last}, "text")
    numbers = [one["progress"] for one in said]
    assert numbers == sorted(numbers)
    assert numbers[0] == last
    assert "total" not in said[2]
