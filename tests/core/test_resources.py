"""Bytes that stay with the host."""

import pytest

from toolwire.core.resources import HANDLE_PREFIX, Resource, Resources


@pytest.mark.requirement("D-35")
def test_only_a_handle_that_was_given_out_finds_anything() -> None:
    kept = Resources(b"salt")
    handle = kept.keep(Resource(data=b"cat", media_type="image/png", name="cat.png"))
    assert kept.find(handle) == Resource(data=b"cat", media_type="image/png", name="cat.png")
    assert [kept.find(text) for text in ("", "/etc/passwd", HANDLE_PREFIX, handle[:-1], handle.upper())] == [None] * 5
    assert Resources(b"other").keep(Resource(data=b"cat", media_type="image/png", name="cat.png")) != handle


def test_the_same_bytes_have_one_handle_and_other_words_for_them_another() -> None:
    kept = Resources(b"salt")
    handle = kept.keep(Resource(data=b"cat"))
    assert kept.keep(Resource(data=b"cat")) == handle
    assert kept.keep(Resource(data=b"cat", name="cat")) != handle


@pytest.mark.requirement("XL-103")
def test_the_oldest_make_room_by_number_and_by_size() -> None:
    kept = Resources(b"salt", most=2, most_bytes=10)
    first, second, third = (kept.keep(Resource(data=data)) for data in (b"aaaa", b"bbbb", b"cc"))
    assert [kept.find(handle) is not None for handle in (first, second, third)] == [False, True, True]
    assert kept.keep(Resource(data=b"x" * 11)) == ""
    fourth = kept.keep(Resource(data=b"d" * 10))
    assert [kept.find(handle) is not None for handle in (second, third, fourth)] == [False, False, True]


def test_a_resource_does_not_show_its_bytes() -> None:
    assert "secret" not in repr(Resource(data=b"secret"))
