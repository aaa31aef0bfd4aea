"""The page of threats has a row for each of them, and the files and tests that it names are there."""

from __future__ import annotations

import re
import tomllib

import pytest

from .page import ROOT
from .test_tables import read_rows

THREATS = {name for name in tomllib.loads((ROOT / "spec" / "requirements.toml").read_text("utf-8")) if name[:2] == "D-"}


def test_each_threat_has_one_row_with_defence_test_and_residual_risk() -> None:
    found = read_rows("threats.md")
    assert sorted(row[0] for row in found) == sorted(THREATS)
    assert len(THREATS) == 39
    assert [row[0] for row in found if len(row) != 6 or not all(row)] == []


def test_every_file_named_in_the_threats_exists() -> None:
    places = [place for row in read_rows("threats.md") for place in row[3].split(", ")]
    assert [place for place in places if not (ROOT / "src" / "toolwire" / place).is_file()] == []


@pytest.mark.parametrize("row", read_rows("threats.md"), ids=lambda row: row[0])
def test_every_test_named_in_the_threats_exists_and_has_the_mark(row: list[str]) -> None:
    marked = False
    for name in row[4].split(", "):
        path, _, function = name.partition("::")
        text = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert re.search(rf"^(?:async )?def {function}\(", text, re.MULTILINE), name
        marked = marked or f'"{row[0]}"' in text
    assert marked, f"no test here is marked as of {row[0]}"
