"""Which regular expressions of a schema can be used at all."""

import pytest

from toolwire.validation.patterns import MAX_CHARACTERS, is_pattern


@pytest.mark.requirement("D-15")
@pytest.mark.parametrize(
    ("text", "usable"),
    [("^a+$", True), ("", True), ("(", False), ("[z-a]", False), ("a" * MAX_CHARACTERS, True),
     ("a" * (MAX_CHARACTERS + 1), False)],
)  # fmt: skip
def test_is_pattern_accepts_only_short_patterns_that_the_validator_supports(text: str, usable: bool) -> None:
    assert is_pattern(text) is usable
