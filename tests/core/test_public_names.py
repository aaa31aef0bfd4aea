"""The names of the package itself."""

import pytest

import toolwire


@pytest.mark.parametrize("name", toolwire.__all__)
def test_each_public_name_is_importable_from_toolwire(name: str) -> None:
    assert name in dir(toolwire)
    assert getattr(toolwire, name) is getattr(toolwire, name)


def test_unknown_public_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'anything'"):
        _ = toolwire.anything
