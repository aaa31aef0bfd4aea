"""What a person is shown is what is sent."""

import pytest

from toolwire.testing.conformance import CodecConnection, behaviours


@pytest.mark.requirement("XL-049")
def test_the_shown_method_and_url_are_those_of_the_request(joined: CodecConnection) -> None:
    assert list(behaviours.check_targets(joined)) == []
