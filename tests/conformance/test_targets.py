"""What a person is shown is what is sent."""

import pytest

from tests.support.conformance import CodecConnection, behaviours


@pytest.mark.requirement("XL-049")
def test_displayed_method_and_url_equal_the_request(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_targets(codec_connection)) == []
