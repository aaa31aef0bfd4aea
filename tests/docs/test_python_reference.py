"""The reference of Python names is what its script makes of the code."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Collection, Iterator
from importlib import import_module
from types import ModuleType

import pytest

import toolwire

from .blocks import Block, read_blocks
from .page import FRAMEWORKS, ROOT

# They play the commands of toolwire in one process, so they import the commands.
DEMONSTRATIONS = {"demo.py", "pasta.py"}


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


@pytest.mark.requirement("FD-02")
def test_pages_and_examples_import_public_modules_only(script: ModuleType) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = {page: [one.text for one in read_blocks(page.read_text("utf-8")) if is_python(one)] for page in pages}
    programs = (path for path in (ROOT / "examples").rglob("*.py") if path.name not in DEMONSTRATIONS)
    texts |= {path: [path.read_text("utf-8")] for path in programs}
    found = {
        (path.name, name)
        for path, parts in texts.items()
        for text in parts
        for name in list_internal(text, script.PUBLIC_MODULES)
    }
    assert len(texts) > 80
    assert sorted(found) == []


def test_import_of_an_internal_module_is_found(script: ModuleType) -> None:
    text = (
        "import toolwire.core\nfrom toolwire.core.model import Secret\nfrom toolwire.adapters import dialects, openai"
    )
    found = ["toolwire.core", "toolwire.core.model", "toolwire.adapters.dialects"]
    assert list(list_internal(text, script.PUBLIC_MODULES)) == found


def test_public_modules_exist(script: ModuleType) -> None:
    files = [ROOT / "src" / name.replace(".", "/") for name in script.PUBLIC_MODULES]
    assert [str(file) for file in files if not file.with_suffix(".py").exists() and not file.is_dir()] == []


def list_internal(text: str, public: Collection[str]) -> Iterator[str]:
    """Yield the modules of toolwire that a program imports and that are not in ``public``."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.startswith("toolwire.") and one.name not in public)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "toolwire":
            module = node.module or ""
            if module not in public:
                # A package of modules, such as `toolwire.integrations`, has no names of its own.
                yield from {module if f"{module}.{one.name}" not in public else "" for one in node.names} - {""}
            else:
                names = (f"{module}.{one.name}" for one in node.names)
                yield from (name for name in names if name not in public and is_module(name))


def is_module(name: str) -> bool:
    """Return whether ``name`` is a module of toolwire, and not a name in one."""
    path = ROOT / "src" / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def is_python(block: Block) -> bool:
    """Return whether ``block`` is code of a user of toolwire."""
    return block.language == "python"


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
