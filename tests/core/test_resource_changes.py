"""Which resources have changed: none is missed, and their number is bounded."""

from __future__ import annotations

import threading

import pytest

from toolwire.core.resource_changes import MAX_KNOWN, ResourceChanges

pytestmark = pytest.mark.requirement("MC-06")


def test_last_change_of_each_uri_is_found() -> None:
    changes = ResourceChanges()
    assert (changes.find_last("a"), changes.last) == (0, 0)
    for uri in ("a", "b", "a"):
        changes.add(uri)
    assert (changes.find_last("a"), changes.find_last("b"), changes.find_last("c"), changes.last) == (3, 2, 0, 3)


def test_change_that_is_forgotten_counts_for_every_uri_that_is_not_known() -> None:
    changes = ResourceChanges()
    for number in range(MAX_KNOWN + 2):
        changes.add(str(number))
    assert changes.find_last("2") == 3
    assert changes.find_last("0") == changes.find_last("never") == 2


def test_threads_lose_no_change() -> None:
    changes = ResourceChanges()

    def change(name: str) -> None:
        for number in range(500):
            changes.add(f"{name}{number % 7}")

    threads = [threading.Thread(target=change, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert changes.last == 2_000
