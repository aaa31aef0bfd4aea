"""The server does not rely on the client's check."""

import pytest

from tests.support.conformance import CodecConnection, behaviours


@pytest.mark.requirement("OXP-009", "A-49")
def test_server_refuses_invalid_arguments(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_arguments(codec_connection)) == []


@pytest.mark.requirement("S-16")
def test_arguments_without_json_equivalent_are_not_sent(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_unencodable_arguments(codec_connection)) == []
