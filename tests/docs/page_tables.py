"""The tables of the reference."""

from __future__ import annotations

from tests.docs.page import ROOT

REFERENCE = ROOT / "docs" / "reference"


def read_rows(page: str, heading: str = "") -> list[list[str]]:
    """Return the cells of the table below ``heading`` (else the first), without code marks, as a list for each row."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    table = text[text.index(heading) :].partition("\n|---")[2].partition("\n\n")[0]
    lines = [line for line in table.split("\n")[1:] if line]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]
