"""What a tool sends while it runs."""

import pytest

from tests.support.conformance import CodecConnection, behaviours


def test_progress_arrives_in_order_and_the_result_contains_all_items(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_streams(codec_connection)) == []


@pytest.mark.requirement("A-28")
def test_opentool_and_mcp_say_progress_while_the_tool_runs(codec_connection: CodecConnection) -> None:
    received = codec_connection.listen("count", {"to": 3})[1]
    assert received == ([1, 2, 3] if codec_connection.codec.name in ("opentool", "mcp") else [])
