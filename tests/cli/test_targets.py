"""What may be pointed at, and what is said when it is not there."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolwire.core.errors import UsageError
from toolwire.hosting.targets.load_code import find_import_folder, load_code, open_code
from toolwire.hosting.targets.target import FileTarget, ModuleTarget, Target, UrlTarget, read_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("https://example.com/docs", UrlTarget("https://example.com/docs")),
        ("http://127.0.0.1:9627", UrlTarget("http://127.0.0.1:9627")),
        ("recipes.app", UrlTarget("recipes.app")),
        ("recipes.app/llm.json?a=b", UrlTarget("recipes.app/llm.json?a=b")),
        ("localhost", UrlTarget("localhost")),
        ("localhost:9627/", UrlTarget("localhost:9627/")),
        ("desk:9627", UrlTarget("desk:9627")),
        ("[::1]:9627", UrlTarget("[::1]:9627")),
        ("calc.py", FileTarget(Path("calc.py"))),
        ("some/where/calc.py", FileTarget(Path("some/where/calc.py"))),
        ("calc.py:kit", FileTarget(Path("calc.py"), "kit")),
        ("calc.py:kits.first", FileTarget(Path("calc.py"), "kits.first")),
        ("package.module:kit", ModuleTarget("package.module", "kit")),
        ("module:kit.part", ModuleTarget("module", "kit.part")),
    ],
)
def test_each_target_text_is_recognized(
    text: str, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [])  # the tests have a module of an example that is named like one of the sites
    assert read_target(text) == target


@pytest.mark.parametrize("text", ["", "word", "two words", "calc.py:", ":9627", "a:b:c", "-", "módulo"])
def test_invalid_target_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"URL, file\.py, openapi\.json, package\.module:name or stdio:COMMAND"):
        read_target(text)


@pytest.mark.parametrize("text", ["nosuch.json", "nosuch.yaml", "./nosuch.yml", "../x/nosuch.json", "/x/nosuch.json"])
def test_document_that_is_not_there_is_no_site(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        read_target(text)
    assert str(refused.value) == f"File not found: {text}."
    assert read_target(f"api.example.com/{Path(text).name}") == UrlTarget(f"api.example.com/{Path(text).name}")


@pytest.mark.parametrize("text", ["htp://example.com", "ftp://example.com/x", "postgres://example.com"])
def test_address_that_is_not_of_a_site_is_refused_by_its_scheme(text: str) -> None:
    with pytest.raises(UsageError, match=r"^\w+:// is not supported\. Write http:// or https://\.$"):
        read_target(text)


def test_name_of_a_file_without_its_ending_is_answered_by_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "desk.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"^'desk' is not a target\. Write desk\.py, or a URL"):
        read_target("desk")


def test_command_about_sites_says_that_a_file_is_none(desk: Path, toolwire: Callable[..., Any]) -> None:
    for command, needs in (("lock", "lock needs URLs"), ("diff", "diff needs a URL")):
        outcome = toolwire(command, str(desk))
        assert (outcome.code, f"{needs}. Local files change only when you edit them." in outcome.err) == (2, True)


@pytest.mark.parametrize("text", ["https://me:hunter2@example.com/", "me:hunter2@example.com", "https://hunter2@x.org"])
def test_password_in_a_url_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_target(text)
    assert "hunter2" not in str(refused.value)


def test_non_python_file_is_not_read_as_a_host_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="neither a Python file"):
        read_target("notes.txt")


def make_package(folder: Path) -> None:
    """Make the package ``desk`` with a toolkit that imports its neighbour by a relative import."""
    (folder / "deskparts" / "inner").mkdir(parents=True)
    for file in ("deskparts/__init__.py", "deskparts/inner/__init__.py"):
        (folder / file).touch()
    (folder / "deskparts" / "names.py").write_text("TITLE = 'Parts'\n")
    text = "from toolwire import Toolkit\nfrom ..names import TITLE\nkit = Toolkit(TITLE)\n"
    (folder / "deskparts" / "inner" / "served.py").write_text(text)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    make_package(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "deskparts"]:
        del sys.modules[name]


@pytest.mark.requirement("FU-14")
def test_file_in_a_package_can_import_its_siblings(package: Path) -> None:
    target = read_target("deskparts/inner/served.py")
    assert titles(target) == "Parts"
    assert find_import_folder(target) == package / "deskparts"  # type: ignore[arg-type]  # it is a file


@pytest.mark.requirement("FU-14")
def test_dotted_name_is_a_module_if_one_exists(package: Path) -> None:
    assert read_target("deskparts.inner.served") == ModuleTarget("deskparts.inner.served")
    assert titles(read_target("deskparts.inner.served")) == "Parts"
    assert read_target("deskparts.inner.missing") == UrlTarget("deskparts.inner.missing")
    assert "deskparts" in sys.modules, "it was imported by the call above, and not before"


@pytest.mark.requirement("FU-14")
def test_reading_a_target_imports_nothing(package: Path) -> None:
    (package / "deskparts" / "__init__.py").write_text("raise SystemExit('it ran')\n")
    assert read_target("deskparts.inner.served") == ModuleTarget("deskparts.inner.served")
    assert "deskparts" not in sys.modules


@pytest.mark.requirement("FU-14")
@pytest.mark.parametrize("name", ["api.example.com", "api.deskparts.ai"])
def test_file_named_like_a_site_is_not_run_as_code(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True)
    file.write_text("raise SystemExit('it ran')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"looks like a host name. Write https://{name}"):
        read_target(name)


def titles(target: Target) -> str:
    return open_code(target).catalog().title  # type: ignore[arg-type]  # never a URL in these tests


def test_the_one_toolkit_of_a_file_is_found(desk: Path) -> None:
    assert titles(FileTarget(desk)) == "Desk"


def test_toolkit_with_two_names_counts_once(write: Callable[..., Path]) -> None:
    file = write("one.py", "from toolwire import Toolkit\na = b = Toolkit('One')\n")
    assert titles(FileTarget(file)) == "One"


@pytest.mark.requirement("GR-06")
def test_loading_code_runs_the_collector_rarely_and_restores_its_threshold(write: Callable[..., Path]) -> None:
    many = "kept = [[] for _ in range(50_000)]\n"
    looks: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] < 2:
            looks.append(info["generation"])

    before = gc.get_threshold()
    assert 0 < before[0] < 20_000
    file = write("many.py", f"from toolwire import Toolkit\nkit = Toolkit('Many')\n{many}")
    gc.collect()
    gc.callbacks.append(note)
    try:
        load_code(FileTarget(file))
    finally:
        gc.callbacks.remove(note)
    assert len(looks) <= 2
    assert gc.get_threshold() == before
    with pytest.raises(UsageError):
        load_code(FileTarget(write("fails.py", f"{many}raise ValueError('no')\n")))
    assert gc.get_threshold() == before


def test_code_that_chooses_its_own_collection_keeps_it(write: Callable[..., Path]) -> None:
    before = gc.get_threshold()
    code = "import gc\nfrom toolwire import Toolkit\na = Toolkit('A')\ngc.set_threshold(999)\n"
    try:
        load_code(FileTarget(write("own.py", code)))
        assert gc.get_threshold()[0] == 999
    finally:
        gc.set_threshold(*before)


def test_file_is_run_once_for_several_names(write: Callable[..., Path]) -> None:
    file = write("once.py", "from toolwire import Toolkit\na, b = Toolkit('A'), Toolkit('B')\n")
    assert load_code(FileTarget(file, "a")) is load_code(FileTarget(file, "a"))
    assert titles(FileTarget(file, "b")) == "B"


def test_target_name_can_contain_attributes(write: Callable[..., Path]) -> None:
    file = write("deep.py", "from toolwire import Toolkit\nclass kits:\n    first = Toolkit('First')\n")
    assert titles(FileTarget(file, "kits.first")) == "First"


def test_target_can_name_any_toolbox(write: Callable[..., Path]) -> None:
    file = write(
        "both.py",
        """
        from toolwire import Toolkit, merge_toolboxes
        from toolwire.server.run.function_toolbox import FunctionToolbox
        a, b = Toolkit("A"), Toolkit("B")
        both = merge_toolboxes([FunctionToolbox(a), FunctionToolbox(b)], title="Both")
        """,
    )
    assert titles(FileTarget(file, "both")) == "Both"


def test_file_can_import_a_module_beside_it(write: Callable[..., Path]) -> None:
    write("made_for_a_test_neighbour.py", "TITLE = 'From next door'\n")
    text = "from made_for_a_test_neighbour import TITLE\nfrom toolwire import Toolkit\nkit = Toolkit(TITLE)\n"
    assert titles(FileTarget(write("calc.py", text))) == "From next door"


def test_module_is_searched_in_the_current_folder(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    file = write("made_for_a_test/tools.py", "from toolwire import Toolkit\nkit = Toolkit('Mine')\n")
    monkeypatch.chdir(file.parents[1])
    assert titles(ModuleTarget("made_for_a_test.tools", "kit")) == "Mine"


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        (
            "from toolwire import Toolkit\na = Toolkit('A')\nb = Toolkit('B')\n",
            None,
            r"several toolkits. Write .*calc\.py:a or .*calc\.py:b",
        ),
        ("x = 1\n", None, r"contains no Toolkit"),
        ("from toolwire import Toolkit\na = Toolkit('A')\n", "b", r"no 'b' in .*It has a\."),
        ("x = 1\n", "y", r"no 'y' in .*It has no toolkit\."),
        ("x = 1\n", "x", "is not a Toolkit, but of type int"),
        (
            "from fastapi import FastAPI\nsite = FastAPI()\n",
            None,
            r"FastAPI application\. Publish .* `publish_tools\(site\)` from toolwire\.integrations\.fastapi,",
        ),
        (
            "from flask import Flask\nsite = Flask('a')\n",
            "site",
            r"Flask application\. Publish .* `publish_tools\(site, document\)` from toolwire\.integrations\.wsgi",
        ),
        (
            "from mcp.server.mcpserver import MCPServer\na = MCPServer('A')\nb = MCPServer('B')\n",
            None,
            r"several MCP servers\. Write calc\.py:a or calc\.py:b\.",
        ),
        ("from toolwire import Remote\n", "Remote", "is not a Toolkit, but of type type"),
        ("x = (\n", None, r"calc\.py, line 1: SyntaxError: "),
        ("x = 1\ny = x + nope\n", None, r"calc\.py, line 2: NameError: name 'nope' is not defined\."),
        ("\nimport made_for_a_test_absent\n", None, r"calc\.py, line 2: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit(3)\n", None, r"calc\.py, line 2: this ends the program"),
        (
            "from toolwire import Toolkit\nkit = Toolkit('A')\n@kit.tool\ndef f(*args): ...\n",
            None,
            r"calc\.py, line \d: DefinitionError: f\(\).*\*args",
        ),
        ("raise ValueError('two\\nlines')\n", None, r"line 1: ValueError: two lines\."),
        ("raise KeyboardInterrupt_\n", None, "NameError"),
    ],
)
def test_fault_of_a_file_is_reported_in_one_sentence(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, text: str, name: str | None, sentence: str
) -> None:
    file = write("calc.py", text)
    monkeypatch.chdir(file.parent)
    with pytest.raises(UsageError, match=sentence) as refused:
        load_code(FileTarget(Path("calc.py"), name))
    assert "\n" not in str(refused.value)


def test_error_in_an_imported_file_is_reported_at_that_file(write: Callable[..., Path]) -> None:
    write("made_for_a_test_broken.py", "a = 1\nb = a.c\n")
    with pytest.raises(UsageError, match=r"made_for_a_test_broken\.py, line 2: AttributeError"):
        load_code(FileTarget(write("calc.py", "import made_for_a_test_broken\n")))


def test_missing_module_differs_from_a_missing_import_inside_it(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("made_for_a_test_half/tools.py", "import made_for_a_test_absent\n")
    monkeypatch.chdir(file.parents[1])
    with pytest.raises(UsageError, match=r"There is no module 'made_for_a_test_missing'"):
        load_code(ModuleTarget("made_for_a_test_missing.tools", "kit"))
    with pytest.raises(UsageError, match=r"tools\.py, line 1: ModuleNotFoundError"):
        load_code(ModuleTarget("made_for_a_test_half.tools", "kit"))


def test_traceback_is_printed_only_with_debug(write: Callable[..., Path], toolwire: Callable[..., Any]) -> None:
    file = write("calc.py", "x = nope\n")
    quiet, loud = toolwire("tools", file), toolwire("tools", file, "--debug")
    assert (quiet.code, loud.code) == (2, 2)
    assert quiet.err.count("\n") == 1
    assert "Traceback" in loud.err
    assert loud.err.endswith(quiet.err)


def test_missing_file_is_named(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("tools", "nowhere.py")
    assert (outcome.code, outcome.out, outcome.err) == (2, "", "toolwire: File not found: nowhere.py.\n")
