"""The reference of Python names is what its script makes of the code."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from types import ModuleType

import pytest

import toolwire

from .page import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("python_reference", ROOT / "spec" / "python_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_script_writes(script: ModuleType) -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.build_page(page) == page, "run `make reference`"


def test_every_public_name_has_an_entry_with_text(script: ModuleType) -> None:
    entries = {part.partition("`\n")[0]: part for part in script.build_reference().split("\n### `")[1:]}
    assert set(toolwire.__all__) <= set(entries)
    listed = {name.rpartition(".")[2] for name in entries}
    for section in script.SECTIONS:
        assert set(section.only or getattr(import_module(section.module), "__all__", ())) <= listed
    assert [name for name, entry in entries.items() if not entry.partition("```\n\n")[2].strip()] == []


def test_a_docstring_becomes_markdown(script: ModuleType) -> None:
    docstring = "Return ``x``.\n\nRaises:\n    ValueError: it is\n        negative.\n    TypeError: it is a text."
    assert script.to_markdown(docstring) == (
        "Return `x`.\n\nRaises:\n\n- `ValueError`: it is\n  negative.\n- `TypeError`: it is a text."
    )


def test_a_signature_shows_defaults_that_a_reader_can_use(script: ModuleType) -> None:
    def run(a: int, /, b: str = "x", *, c: toolwire.RateLimit | None = None, d: object = print) -> None: ...

    assert script.function_signature("run", run) == (
        "def run(a: int, /, b: str = 'x', *, c: toolwire.RateLimit | None = None, d: object = ...) -> None"
    ).replace("toolwire.", "")
