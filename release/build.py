"""Build what a release is made of into ``dist/``, and check it; nothing is published: ``make release``.

Each step prints one line, and the first that fails ends the run with 1. The wheel and the source are built twice and
must be equal byte for byte. Then both are installed in empty environments and used there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PUBLIC_FILES = ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml")
# Nothing of a working copy, no test and no secret belongs into what users install.
_UNWANTED = re.compile(r"(^|/)(tests?|__pycache__|\.[^/]+|.*\.(?:pyc|sqlite3?|pem|key|env|log))(/|$)")
_FOR_CLONES = frozenset({"dev", "interop", "examples"})


class ReleaseError(Exception):
    """A check failed; the text says which."""


def main() -> int:
    """Build and check; return the exit code."""
    try:
        version = read_version()
        shutil.rmtree(DIST, ignore_errors=True)
        wheel, source = build_twice(DIST)
        say(f"built twice, byte for byte equal: {wheel.name}, {source.name}")
        check_wheel(wheel, version)
        check_source(source, version)
        say("the wheel has the package, its examples, py.typed and the licence, and nothing else")
        run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source))
        say("twine check: no complaint")
        if not read_repository():
            say("the metadata has no project URLs: set repository in [tool.hatch.metadata.hooks.custom]")
        for number, python in find_pythons().items():
            if python is None:
                say(f"not checked: CPython {number}, which is not on this machine")
                continue
            with TemporaryDirectory(prefix="release-") as folder:
                check_installation(Path(folder), f"{wheel}[all]", version, python)
                if python == sys.executable:
                    write_bom(Path(folder), DIST / f"toolwire-{version}.cdx.json", version)
                    say(f"SBOM: toolwire-{version}.cdx.json")
            with TemporaryDirectory(prefix="release-") as folder:
                check_installation(Path(folder), str(source), version, python)
            say(f"CPython {number}: the wheel with all extras and the source without any work in empty environments")
        write_digests(DIST)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    say("dist/SHA256SUMS has the digests. Nothing was published.")
    return 0


def say(text: str) -> None:
    """Print what is done."""
    print(text, flush=True)


def run(*words: str, where: Path = ROOT, **variables: str) -> str:
    """Run a command and return what it printed.

    Raises:
        ReleaseError: it ended with another code than 0.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLWIRE_", "PYTHON"))}
    ended = subprocess.run(
        words, cwd=where, env={**kept, **variables}, capture_output=True, text=True, timeout=900, check=False
    )
    if ended.returncode:
        raise ReleaseError(f"{' '.join(words[:4])}... ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def read_version() -> str:
    """Return the version that the project, the package and the change notes have.

    Raises:
        ReleaseError: they do not agree.
    """
    project: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    package = (ROOT / "src" / "toolwire" / "core" / "version.py").read_text(encoding="utf-8")
    if f'__version__ = "{project}"' not in package:
        raise ReleaseError(f"pyproject.toml has the version {project}, and toolwire.__version__ another one.")
    if f"\n## {project} " not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise ReleaseError(f"CHANGELOG.md has no section for {project}: run `make changelog`.")
    return project


def read_repository() -> str:
    """Return the URL of the repository in pyproject.toml, or ``""``."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return str(tools["hatch"]["metadata"]["hooks"]["custom"]["repository"])


def build_twice(folder: Path) -> tuple[Path, Path]:
    """Build wheel and source into ``folder`` and once more elsewhere; return the paths of both.

    Raises:
        ReleaseError: the second build differs.
    """
    with TemporaryDirectory(prefix="release-") as other:
        for target in (folder, Path(other)):
            run(sys.executable, "-m", "hatchling", "build", "-d", str(target))
        names = sorted(path.name for path in folder.iterdir())
        for name in names:
            if (folder / name).read_bytes() != (Path(other) / name).read_bytes():
                raise ReleaseError(f"{name} differs when it is built again.")
    (source,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return wheel, source


def check_wheel(wheel: Path, version: str) -> None:
    """Check what is in the wheel, and its metadata.

    Raises:
        ReleaseError: a file is missing or unwanted, or the metadata is not that of the project.
    """
    package = ROOT / "src" / "toolwire"
    expected = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        info = f"toolwire-{version}.dist-info"
        metadata = HeaderParser().parsestr(opened.read(f"{info}/METADATA").decode())
        entry_points = opened.read(f"{info}/entry_points.txt").decode()
    own = {name for name in names if not name.startswith(f"{info}/")}
    if own != expected:
        raise ReleaseError(f"the wheel differs from src/toolwire: {sorted(own ^ expected)[:10]}")
    if unwanted := sorted(name for name in own if _UNWANTED.search(name) and "toolwire/testing/" not in name):
        raise ReleaseError(f"the wheel has files that no user needs: {unwanted[:10]}")
    for name in ("toolwire/py.typed", "toolwire/example_files/shop.py", f"{info}/licenses/LICENSE"):
        if name not in names:
            raise ReleaseError(f"the wheel has no {name}.")
    if "toolwire = toolwire.cli:main" not in entry_points:
        raise ReleaseError("the wheel has no command toolwire.")
    if link := re.search(r"\]\((?!https?:|mailto:|#)[^)]*\)", str(metadata.get_payload())):
        raise ReleaseError(f"the README of the wheel has a link that works only in a clone: {link[0]}.")
    wanted = {
        "Author": "The toolwire authors",
        "Version": version,
        "License-Expression": "MIT",
        "Requires-Python": ">=3.11",
    }
    if found := {name: metadata[name] for name, value in wanted.items() if metadata[name] != value}:
        raise ReleaseError(f"the metadata of the wheel has {found}.")
    if extras := _FOR_CLONES & set(metadata.get_all("Provides-Extra") or ()):
        raise ReleaseError(f"the wheel has extras that only a clone needs: {sorted(extras)}.")


def check_source(source: Path, version: str) -> None:
    """Check that the source can be built and has its licence, and nothing of a working copy.

    Raises:
        ReleaseError: a file is missing or unwanted.
    """
    with tarfile.open(source) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    if missing := {*PUBLIC_FILES, "src/toolwire/py.typed", "PKG-INFO"} - names:
        raise ReleaseError(f"the source of {version} has no {sorted(missing)}.")
    if unwanted := sorted(name for name in names if re.search(r"(^|/)(\.cache|\.venv|__pycache__|dist)(/|$)", name)):
        raise ReleaseError(f"the source has files of a working copy: {unwanted[:10]}")


def find_pythons() -> dict[str, str | None]:
    """Return the interpreter of each CPython that pyproject.toml names; None for one that is not on this machine."""
    # RE-03
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    numbers = re.findall(r"Python :: (3\.\d+)\b", "\n".join(project["classifiers"]))
    return {number: _find_python(number) for number in numbers}


def _find_python(number: str) -> str | None:
    if number == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return sys.executable
    own = sorted(Path.home().glob(f".pyenv/versions/{number}.*/bin/python"))
    for one in (shutil.which(f"python{number}"), *map(str, own)):
        if one and subprocess.run((one, "-c", "pass"), capture_output=True, check=False).returncode == 0:
            return one
    return None


def check_installation(folder: Path, what: str, version: str, base: str) -> None:
    """Install ``what`` in an empty environment of the interpreter ``base`` below ``folder``, and use it there.

    Raises:
        ReleaseError: it cannot be installed, or does not do what a first user does.
    """
    run(base, "-m", "venv", "--without-pip", str(folder / "env"))
    python, toolwire = str(folder / "env" / "bin" / "python"), str(folder / "env" / "bin" / "toolwire")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--constraint", str(ROOT / "constraints.txt"), what)
    (folder / "home").mkdir()
    home = {"HOME": str(folder / "home")}
    steps = (
        (("-V",), f"toolwire {version}"),
        (("example",), "shop.py is written"),
        (("tools", "shop.py"), "in_stock"),
        (("call", "shop.py", "in_stock", "item=tea"), "4"),
        (("settings", "check"), "No settings to check"),
    )
    for words, expected in steps:
        printed = run(toolwire, *words, where=folder, **home)
        if expected not in printed:
            raise ReleaseError(f"toolwire {' '.join(words)} printed {printed[:200]!r}, not {expected!r}.")
    run(python, "-I", "-c", "from toolwire import *; import toolwire; assert toolwire.connect", where=folder, **home)


def write_bom(folder: Path, file: Path, version: str) -> None:
    """Write the software bill of materials of the environment below ``folder``: toolwire with all its extras.

    Raises:
        ReleaseError: it is not valid, or lacks what is installed.
    """
    words = (
        "environment",
        "--pyproject",
        str(ROOT / "pyproject.toml"),
        "--mc-type",
        "library",
        "--output-reproducible",
    )
    tool = str(Path(sys.executable).parent / "cyclonedx-py")
    run(tool, *words, "--output-file", str(file), str(folder / "env"))
    bom = json.loads(file.read_text(encoding="utf-8"))
    main_component = bom["metadata"]["component"]
    if (main_component["name"], main_component.get("version")) != ("toolwire", version):
        raise ReleaseError(f"the SBOM is about {main_component['name']} {main_component.get('version')}.")
    named = {one["name"].lower() for one in bom["components"]}
    if missing := {"pydantic", "orjson", "uvicorn", "psycopg"} - named:
        raise ReleaseError(f"the SBOM does not name {sorted(missing)}.")


def write_digests(folder: Path) -> None:
    """Write the SHA-256 of each file in ``folder`` into SHA256SUMS there."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.suffix in (".whl", ".gz", ".json")
    ]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
