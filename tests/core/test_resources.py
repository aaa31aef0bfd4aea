"""Bytes that stay with the host."""

import pytest

from toolwire.core.resources import HANDLE_PREFIX, Resource, Resources


@pytest.mark.requirement("D-35")
def test_resource_is_found_only_by_an_issued_handle() -> None:
    stored = Resources(b"salt")
    handle = stored.store(Resource(data=b"cat", media_type="image/png", name="cat.png"))
    assert stored.find(handle) == Resource(data=b"cat", media_type="image/png", name="cat.png")
    assert [stored.find(text) for text in ("", "/etc/passwd", HANDLE_PREFIX, handle[:-1], handle.upper())] == [None] * 5
    assert Resources(b"other").store(Resource(data=b"cat", media_type="image/png", name="cat.png")) != handle


def test_same_resource_gets_the_same_handle_and_other_metadata_another() -> None:
    stored = Resources(b"salt")
    handle = stored.store(Resource(data=b"cat"))
    assert stored.store(Resource(data=b"cat")) == handle
    assert stored.store(Resource(data=b"cat", name="cat")) != handle


@pytest.mark.requirement("XL-103")
def test_oldest_resources_are_dropped_at_the_count_and_size_limits() -> None:
    stored = Resources(b"salt", most=2, most_bytes=10)
    first, second, third = (stored.store(Resource(data=data)) for data in (b"aaaa", b"bbbb", b"cc"))
    assert [stored.find(handle) is not None for handle in (first, second, third)] == [False, True, True]
    assert stored.store(Resource(data=b"x" * 11)) == ""
    fourth = stored.store(Resource(data=b"d" * 10))
    assert [stored.find(handle) is not None for handle in (second, third, fourth)] == [False, False, True]


def test_repr_of_a_resource_hides_its_bytes() -> None:
    assert "secret" not in repr(Resource(data=b"secret"))
