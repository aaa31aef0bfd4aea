"""Whatever JSON data goes in comes out the same."""

import pytest

from toolwire.testing.conformance import Session, behaviours


@pytest.mark.requirement("CV-33")
def test_texts_numbers_null_and_nesting_come_back_exactly(joined: Session) -> None:
    assert list(behaviours.values(joined)) == []
