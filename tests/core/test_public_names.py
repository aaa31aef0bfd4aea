"""The names of the package itself."""

import pytest

import toolwire


@pytest.mark.parametrize("name", toolwire.__all__)
def test_a_public_name_is_the_thing_itself(name: str) -> None:
    assert name in dir(toolwire)
    assert getattr(toolwire, name) is getattr(toolwire, name)


def test_there_is_no_other_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'anything'"):
        _ = toolwire.anything
