"""The reference page names what the code names."""

import re
from pathlib import Path

import pytest

from toolwire.telemetry import names

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "observability.md").read_text(encoding="utf-8")


@pytest.mark.requirement("OB-3")
def test_documentation_lists_exactly_the_attributes_and_metrics() -> None:
    own = {value for key, value in vars(names).items() if key.isupper() and isinstance(value, str) and "." in value}
    written = set(re.findall(r"^\| `([a-z_.]+\.[a-z_.]+)`", PAGE, re.MULTILINE))
    assert written == own


def test_documentation_lists_every_error_type() -> None:
    assert all(f"`{word}`" in PAGE for word in {*names.ERROR_TYPES.values(), "cancelled"})
