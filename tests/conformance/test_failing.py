"""What a tool raises to say why arrives, but for what is only for the log."""

import pytest

from toolwire.testing.conformance import CodecConnection, behaviours


@pytest.mark.requirement("OTC-028", "OTC-029", "A-53")
def test_what_a_tool_says_arrives_whole(joined: CodecConnection) -> None:
    assert list(behaviours.check_tool_errors(joined)) == []


@pytest.mark.requirement("OTC-031", "OTC-032")
def test_when_to_try_again_is_not_changed_on_the_way(joined: CodecConnection) -> None:
    assert list(behaviours.check_retry_hints(joined)) == []
