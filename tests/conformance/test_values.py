"""Whatever JSON data goes in comes out the same."""

import pytest

from toolwire.testing.conformance import CodecConnection, behaviours


@pytest.mark.requirement("CV-33")
def test_texts_numbers_null_and_nesting_come_back_exactly(joined: CodecConnection) -> None:
    assert list(behaviours.check_values(joined)) == []
