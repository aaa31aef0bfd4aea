"""No call runs for ever."""

from tests.support.conformance import CodecConnection, behaviours


def test_slow_tool_is_cancelled_and_the_caller_told(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_timeouts(codec_connection)) == []
