"""No name in the source breaks the rules of CONTRIBUTING.md, and the script that looks for such names finds them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names() -> Any:
    """The script, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("names_script", ROOT / "spec" / "names.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["names_script"] = module
    spec.loader.exec_module(module)
    return module


def test_source_contains_no_forbidden_names(names: Any) -> None:
    assert [str(fault) for fault in names.find_faults()] == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("door.py", ""),
        ("a.py", "def shown(): ..."),
        ("a.py", "def _refused(): ..."),
        ("a.py", "async def sent_to(): ..."),
        ("a.py", "class Thing:\n    def closing(self): ..."),
        ("a.py", "class OpenDoor: ..."),
        ("a.py", "def find_person(): ..."),
        ("kept_items.py", ""),
        ("a.py", "class Undecided: ..."),
        ("a.py", "def stop(goes_on): ..."),
        ("a.py", "PROVED_BEFORE = 1"),
        ("a.py", "_MOST_ROWS = 1"),
        ("a.py", "def read():\n    said = 1"),
    ],
)
def test_forbidden_name_is_found(names: Any, tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    assert len(list(names.find_faults(tmp_path))) == 1


def test_verb_with_object_is_accepted(names: Any, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def parse_scope(): ...\n\n\nclass Transport:\n    def send(self): ...\n")
    assert list(names.find_faults(tmp_path)) == []
