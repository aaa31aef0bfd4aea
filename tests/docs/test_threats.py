"""Each threat has a heading with its defence and its remaining risk, and the code and tests that prove it are there."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.docs.page_tables import REFERENCE, read_rows

from .page import ROOT

THREATS = {name for name in tomllib.loads((ROOT / "spec" / "requirements.toml").read_text("utf-8")) if name[:2] == "D-"}
PAGES = ("threats.md", "threats-to-servers.md")
RISK = "**Remaining risk:** "


@pytest.mark.requirement("FD-02")
def test_each_threat_has_one_heading_with_defence_and_remaining_risk() -> None:
    texts = [(REFERENCE / page).read_text(encoding="utf-8") for page in PAGES]
    threats = {
        threat: text
        for page in texts
        for threat, text in re.findall(r"^## (D-\d+)\. [^\n]+\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    }
    assert sum(len(re.findall("^## ", page, re.M)) for page in texts) == len(threats)
    assert threats.keys() == THREATS
    assert len(THREATS) == 39
    assert [threat for threat, text in threats.items() if "\n- " not in text or text.count(f"\n{RISK}") != 1] == []


def test_each_threat_has_one_row_with_code_and_tests() -> None:
    found = read_rows("threat-tests.md")
    assert sorted(row[0] for row in found) == sorted(THREATS)
    assert [row[0] for row in found if len(row) != 4 or not all(row)] == []


def test_every_file_named_in_the_threats_exists() -> None:
    places = [place for row in read_rows("threat-tests.md") for place in row[2].split(", ")]
    assert [place for place in places if not (ROOT / "src" / "toolwire" / place).is_file()] == []


@pytest.mark.parametrize("row", read_rows("threat-tests.md"), ids=lambda row: row[0])
def test_every_test_named_in_the_threats_exists_and_has_the_mark(row: list[str]) -> None:
    marked = False
    for name in row[3].split(", "):
        path, _, function = name.partition("::")
        text = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert re.search(rf"^(?:async )?def {function}\(", text, re.MULTILINE), name
        marked = marked or f'"{row[0]}"' in text
    assert marked, f"no test here is marked as of {row[0]}"
