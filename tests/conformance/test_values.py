"""Whatever JSON data goes in comes out the same."""

import pytest

from tests.support.conformance import CodecConnection, behaviours


@pytest.mark.requirement("CV-33")
def test_texts_numbers_null_and_nesting_arrive_unchanged(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_values(codec_connection)) == []
