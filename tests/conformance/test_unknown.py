"""A tool that is not there."""

from tests.support.conformance import CodecConnection, behaviours


def test_an_unknown_tool_is_a_problem_on_both_sides(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_unknown_tools(codec_connection)) == []
