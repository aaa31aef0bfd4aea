"""A call gives what the tool gave."""

from tests.support.conformance import CodecConnection, behaviours


def test_a_call_gives_the_value_of_coroutine_thread_and_stream(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_calls(codec_connection)) == []


def test_tool_without_a_value_returns_none(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_none_result(codec_connection)) == []
