"""Which media types are streams."""

import pytest

from toolwire.framing.stream_types import is_stream


@pytest.mark.requirement("XL-106")
@pytest.mark.parametrize(
    ("media_type", "is_one"),
    [
        ("text/event-stream", True),
        (" Text/Event-Stream ; charset=utf-8", True),
        ("application/x-ndjson", True),
        ("application/geo+json-seq", True),
        ("application/json", False),
        ("text/event-stream-not", False),
        ("", False),
    ],
)
def test_stream_is_recognized_by_media_type_in_any_case(media_type: str, is_one: bool) -> None:
    assert is_stream(media_type) is is_one
