"""The walks of ARCHITECTURE.md name files and symbols that exist."""

from __future__ import annotations

import ast
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


PROTOCOLS = frozenset({"openapi", "opentool", "otc", "mcp"})


def names_a_protocol(path: Path) -> bool:
    """Whether a module imports the package of a codec, or has the name of a protocol as a text in its code."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("toolwire.protocols."):
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in PROTOCOLS:
            return True
    return False


def test_table_lists_exactly_the_parts_that_know_protocols_by_name() -> None:
    table = PAGE[PAGE.index("These parts know protocols") : PAGE.index("## Where things are proved")]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    parts = [part for row in rows for part in re.findall(r"`([^`]+)`", row)]
    modules = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if names_a_protocol(path)]
    outside = [module for module in modules if not module.startswith("protocols/")]
    assert len(outside) > 40
    assert [one for one in sorted(outside) if not any(one.startswith(part) for part in parts)] == []
    assert [part for part in parts if not any(one.startswith(part) for one in outside)] == []
