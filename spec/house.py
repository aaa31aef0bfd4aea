"""Print how much code there is to hold in one's head, against what we aim at: ``make house``."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_SMALL = 40


class Figure(NamedTuple):
    """One measurement, and the most that it should be."""

    name: str
    value: int
    goal: int


def count_code(text: str) -> int:
    """Return the number of lines of ``text`` that hold code: no comment, no docstring, not empty."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def measure() -> Iterator[Figure]:
    """Yield each figure."""
    source = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}
    tests = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("*.py"))}
    yield Figure("lines of code in src", sum(map(count_code, source.values())), 67_500)
    yield Figure("lines of code in tests", sum(map(count_code, tests.values())), 73_000)
    cli = [text for path, text in source.items() if path.is_relative_to(ROOT / "src/toolwire/cli")]
    yield Figure("physical lines in cli", sum(text.count("\n") for text in cli), 8_000)
    small = [path for path, text in source.items() if path.stem != "__init__" and count_code(text) < _SMALL]
    yield Figure(f"modules below {_SMALL} lines of code", len(small), 115)
    importers = _count_importers(source)
    yield Figure("  of which one module imports", sum(importers[_name_module(path)] == 1 for path in small), 5)
    yield from _measure_app()
    wanted = r"^\s*from (?:tests\b|\.)[^#\n]*\btest_\w"
    found = sum(len(re.findall(wanted, text, re.MULTILINE)) for text in tests.values())
    yield Figure("imports from one test module into another", found, 0)


def _measure_app() -> Iterator[Figure]:
    from toolwire.server.app import App

    yield Figure("parameters of App", len(inspect.signature(App).parameters), 10)
    methods = [name for name, member in vars(App).items() if inspect.isfunction(member)]
    yield Figure("methods of App", len(methods), 20)


def _name_module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


def _count_importers(source: dict[Path, str]) -> Counter[str]:
    """Return how many modules import each module, by its dotted name."""
    found: Counter[str] = Counter()
    for path, text in source.items():
        package = _name_module(path).split(".")[:-1]
        names: set[str] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                module = ".".join((*base, *(node.module or "").split("."))).rstrip(".")
                names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        found.update(names)
    return found


def main() -> None:
    """Print the table."""
    figures = list(measure())
    width = max(len(figure.name) for figure in figures)
    print(f"{'':{width}}    now    goal")
    for name, value, goal in figures:
        print(f"{name:{width}} {value:>7,} {goal:>7,}{'' if value <= goal else '  over'}")
    print("The calls and files of one call are printed by `python bench/call_path.py`.")


if __name__ == "__main__":
    main()
