"""A call gives what the tool gave."""

from toolwire.testing.conformance import CodecConnection, behaviours


def test_a_call_gives_the_value_of_coroutine_thread_and_stream(joined: CodecConnection) -> None:
    assert list(behaviours.check_calls(joined)) == []


def test_a_tool_that_returns_nothing_gives_none(joined: CodecConnection) -> None:
    assert list(behaviours.check_none_result(joined)) == []
