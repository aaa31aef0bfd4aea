"""A bug in a tool tells nothing of the inside."""

import pytest

from toolwire.testing.conformance import Session, behaviours


@pytest.mark.requirement("A-53", "OTC-029")
def test_an_exception_is_a_problem_without_its_text(joined: Session) -> None:
    assert list(behaviours.crashing(joined)) == []
