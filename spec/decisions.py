"""Write docs/decisions/README.md, the index of the decisions with their status: ``python spec/decisions.py``."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "decisions"
INDEX = FOLDER / "README.md"
_STATUS = re.compile(r"^\*\*(Replaced(?: in part)?)\.\*\*", re.MULTILINE)


def write_index() -> str:
    """Return the index: a row for each decision, which is in force where it does not say that it was replaced."""
    rows = []
    for page in sorted(FOLDER.glob("[0-9]*.md")):
        text = page.read_text(encoding="utf-8")
        number, _, title = text.partition("\n")[0].removeprefix("# ").partition(". ")
        found = _STATUS.search(text)
        rows.append(f"| [{number}]({page.name}) | {title} | {found[1].lower() if found else 'in force'} |\n")
    return (
        "# Decisions\n\n"
        "Half a page for each decision: its context, what was decided, and what follows. The numbers have gaps.\n\n"
        "| number | decision | status |\n|---|---|---|\n" + "".join(rows)
    )


if __name__ == "__main__":
    INDEX.write_text(write_index(), encoding="utf-8")
