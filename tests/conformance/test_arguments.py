"""The server does not rely on the client's check."""

import pytest

from toolwire.testing.conformance import CodecConnection, behaviours


@pytest.mark.requirement("OXP-009", "A-49")
def test_arguments_that_do_not_fit_are_refused_by_the_server(joined: CodecConnection) -> None:
    assert list(behaviours.check_arguments(joined)) == []


@pytest.mark.requirement("S-16")
def test_arguments_that_json_cannot_say_are_not_sent(joined: CodecConnection) -> None:
    assert list(behaviours.check_unencodable_arguments(joined)) == []
