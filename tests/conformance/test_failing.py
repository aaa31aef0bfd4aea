"""What a tool raises to say why arrives, but for what is only for the log."""

import pytest

from tests.support.conformance import CodecConnection, behaviours


@pytest.mark.requirement("OTC-028", "OTC-029", "A-53")
def test_tool_error_arrives_complete(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_tool_errors(codec_connection)) == []


@pytest.mark.requirement("OTC-031", "OTC-032")
def test_retry_hints_arrive_unchanged(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_retry_hints(codec_connection)) == []
