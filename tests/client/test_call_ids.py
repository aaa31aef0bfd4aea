"""Ids of calls are UUIDs like any other."""

from __future__ import annotations

from uuid import RFC_4122, UUID

import pytest

from toolwire.client.calls.retry import new_id


@pytest.mark.requirement("A-37", "C-9")
def test_new_call_id_is_a_unique_random_uuid() -> None:
    ids = [new_id() for _ in range(1_000)]
    assert len(set(ids)) == len(ids)
    for text in ids:
        read = UUID(text)
        assert (str(read), read.version, read.variant) == (text, 4, RFC_4122)
