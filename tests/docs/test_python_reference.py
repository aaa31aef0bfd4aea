"""The reference of Python names is what its script makes of the code."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

import toolwire

from .blocks import read_blocks
from .page import FRAMEWORKS, ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("python_reference", ROOT / "spec" / "python_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.requirement("FD-02")
def test_reference_pages_equal_the_generated_ones(script: ModuleType) -> None:
    pages = {page.name: page.read_text(encoding="utf-8") for page in script.FOLDER.iterdir()}
    assert pages == script.build_pages(), "run `make reference`"
    index = script.INDEX.read_text(encoding="utf-8")
    assert script.build_index(index) == index, "run `make reference`"


@pytest.mark.requirement("FD-02")
def test_no_reference_page_is_longer_than_a_reader_can_take(script: ModuleType) -> None:
    pages = [script.build_index(script.INDEX.read_text(encoding="utf-8")), *script.build_pages().values()]
    assert [page.partition("# ")[2][:40] for page in pages if len(page.split()) > 4_000] == []


def test_every_public_name_has_an_entry_with_text(script: ModuleType) -> None:
    pages = "".join(script.build_pages().values())
    entries = {part.partition("`\n")[0]: part for part in re.split(r"\n###? `", pages)[1:]}
    assert set(toolwire.__all__) <= set(entries)
    listed = {name.rpartition(".")[2] for name in entries}
    for section in script.SECTIONS:
        assert set(section.only or getattr(import_module(section.module), "__all__", ())) <= listed
    assert [name for name, entry in entries.items() if not entry.partition("```\n\n")[2].strip()] == []


def test_every_name_that_the_pages_import_is_in_the_reference(script: ModuleType) -> None:
    listed = {
        id(getattr(import_module(one.module), name)) for one in script.SECTIONS for name in script.list_names(one)
    }
    modules = {one.module for one in script.SECTIONS}
    missing = []
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for module, name in find_imports(page.read_text(encoding="utf-8")):
            if f"{module}.{name}" not in modules and id(getattr(import_module(module), name)) not in listed:
                missing.append((page.name, module, name))
    assert missing == []


def find_imports(page: str) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import from toolwire in the Python blocks of a page."""
    for block in read_blocks(page):
        # A block for a framework of agents imports what is not in this environment; `test_blocks.py` runs it there.
        is_python = block.language == "python" and block.name not in FRAMEWORKS
        for node in ast.walk(ast.parse(block.text)) if is_python else ():
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "toolwire":
                yield from ((node.module, one.name) for one in node.names)


def test_a_docstring_becomes_markdown(script: ModuleType) -> None:
    docstring = "Return ``x``.\n\nRaises:\n    ValueError: it is\n        negative.\n    TypeError: it is a text."
    assert script.to_markdown(docstring) == (
        "Return `x`.\n\nRaises:\n\n- `ValueError`: it is\n  negative.\n- `TypeError`: it is a text."
    )


def test_signature_shows_readable_defaults(script: ModuleType) -> None:
    def run(a: int, /, b: str = "x", *, c: toolwire.RateLimit | None = None, d: object = print) -> None: ...

    assert script.function_signature("run", run) == (
        "def run(a: int, /, b: str = 'x', *, c: toolwire.RateLimit | None = None, d: object = ...) -> None"
    ).replace("toolwire.", "")
