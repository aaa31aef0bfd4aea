"""What a tool sends while it runs."""

import pytest

from toolwire.testing.conformance import CodecConnection, behaviours


def test_progress_arrives_in_order_and_the_result_holds_all_of_it(joined: CodecConnection) -> None:
    assert list(behaviours.check_streams(joined)) == []


@pytest.mark.requirement("A-28")
def test_opentool_and_mcp_say_progress_while_the_tool_runs(joined: CodecConnection) -> None:
    heard = joined.listen("count", {"to": 3})[1]
    assert heard == ([1, 2, 3] if joined.codec.name in ("opentool", "mcp") else [])
