"""Tools arrive as they were declared."""

import pytest

from tests.support.conformance import CodecConnection, behaviours


@pytest.mark.requirement("OTC-004", "OTC-007")
def test_every_tool_arrives_with_its_arguments_and_consent(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_listing(codec_connection)) == []
