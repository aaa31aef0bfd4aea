"""The walks of ARCHITECTURE.md name files and symbols that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SOURCE = ROOT / "src" / "toolwire"


def test_every_file_that_the_architecture_names_exists() -> None:
    names = {name for name in re.findall(r"`([\w/<>]+\.py)`", PAGE) if "<" not in name}
    assert len(names) > 40
    files = [f"/{path.relative_to(SOURCE)}" for path in SOURCE.rglob("*.py")]
    assert [name for name in sorted(names) if not any(file.endswith(f"/{name}") for file in files)] == []


def test_every_symbol_of_a_walk_is_in_its_file() -> None:
    walks = PAGE[PAGE.index("## Walk 1") : PAGE.index("## To add")]
    pairs = re.findall(r"`(\w+(?:\.\w+)?)` in `([\w/]+\.py)`", walks)
    assert len(pairs) >= 5
    for symbol, file in pairs:
        (path,) = [path for path in SOURCE.rglob("*.py") if str(path).endswith(f"/{file}")]
        for name in symbol.split("."):
            assert re.search(rf"\b(?:def|class) {name}\b", path.read_text()), f"{symbol} is not in {file}"
