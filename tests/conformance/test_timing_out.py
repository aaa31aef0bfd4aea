"""No call runs for ever."""

from toolwire.testing.conformance import CodecConnection, behaviours


def test_a_slow_tool_is_cancelled_and_the_caller_is_told(joined: CodecConnection) -> None:
    assert list(behaviours.check_timeouts(joined)) == []
