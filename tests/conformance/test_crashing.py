"""A bug in a tool tells nothing of the inside."""

import pytest

from tests.support.conformance import CodecConnection, behaviours


@pytest.mark.requirement("A-53", "OTC-029")
def test_exception_becomes_a_problem_without_its_text(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_crashes(codec_connection)) == []
