"""What a release is made of: the wheel is the package and nothing else, and the change notes are read by feature."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from release.build import ReleaseError, build_twice, check_source, check_wheel, read_version
from release.changelog import build_section, extend_section, find_feature, read_fragments
from spec.ledger import read_results
from toolwire import __version__

ROOT = Path(__file__).parents[2]
FEATURES = [{"title": "Gateway", "words": ["upstream"], "text": "Many servers."}, {"title": "Rest", "words": ["x"]}]


@pytest.mark.requirement("FU-10")
def test_wheel_and_source_are_built_twice_alike_with_all_that_users_need(tmp_path: Path) -> None:
    assert read_version() == __version__
    wheel, source = build_twice(tmp_path)
    check_wheel(wheel, __version__)
    check_source(source, __version__)
    with zipfile.ZipFile(wheel, "a") as opened:
        opened.writestr("toolwire/secrets.env", "")
    with pytest.raises(ReleaseError, match=r"secrets\.env"):
        check_wheel(wheel, __version__)


def test_change_notes_are_grouped_by_the_feature_that_they_name_or_whose_words_they_have() -> None:
    fragments = {
        "0002.added.md": "[Rest] An upstream.",
        "0001.security.md": "Each upstream is apart.",
        "0003.fixed.md": "An upstream ended.",
    }
    first = build_section("1.0 (2026-01-01)", fragments, FEATURES, is_first=True)
    assert first.startswith("## 1.0 (2026-01-01)\n\nThe first release.")
    assert "### Gateway\n\nMany servers.\n\n- Security: Each upstream is apart.\n" in first
    assert first.endswith("### Rest\n\n- An upstream.\n")
    assert "ended" not in first  # nobody had what was mended before the first release
    second = build_section("1.1 (2026-02-01)", fragments, FEATURES, is_first=False)
    assert "### Gateway\n\n- Security: Each upstream is apart.\n- Fixed: An upstream ended.\n" in second


def test_section_that_is_not_released_yet_keeps_its_edited_text() -> None:
    edited = "## 1.0 (2026-01-01)\n\nRead this first.\n\n### Gateway\n\nMany servers.\n\n- One,\n  in two lines.\n"
    edited += "\n### Own\n\n- Mine.\n"
    new = {"0002.added.md": "[Gateway] Two.", "0003.fixed.md": "[Rest] Three."}
    extended = extend_section("1.0 (2026-02-02)", edited, new, FEATURES)
    assert extended == (
        "## 1.0 (2026-02-02)\n\nRead this first.\n\n### Gateway\n\nMany servers.\n\n- One,\n  in two lines.\n- Two.\n"
        "\n### Own\n\n- Mine.\n\n### Rest\n\n- Fixed: Three.\n"
    )


def test_every_change_note_is_one_of_a_known_kind() -> None:
    fragments = read_fragments(ROOT / "news")
    assert all(fragments.values())
    assert find_feature("about nothing", FEATURES) == "Rest"


def test_a_file_that_is_no_change_note_is_named(tmp_path: Path) -> None:
    (tmp_path / "0001.news.md").write_text("New.", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"0001\.news\.md is no fragment"):
        read_fragments(tmp_path)


@pytest.mark.requirement("RE-07")
def test_without_change_notes_the_changes_stay_as_they_are(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "release/changelog.py", "release/features.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "news").mkdir()
    (tmp_path / "news" / "README.md").write_text("# Change notes\n")
    before = "# Changes\n\n## 0.1.0 (2026-01-01)\n\n- [MCP] One.\n\n\n"
    (tmp_path / "CHANGELOG.md").write_text(before)
    argv = [sys.executable, str(tmp_path / "release" / "changelog.py")]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    assert (tmp_path / "CHANGELOG.md").read_text() == before
    assert done.stdout == "There is nothing new in news/: CHANGELOG.md stays as it is.\n"


@pytest.mark.requirement("RE-07")
def test_a_clone_without_results_says_what_to_run(tmp_path: Path) -> None:
    assert read_results(tmp_path).origin == "no test run: `make test` makes one"


def build_metadata(folder: Path, repository: str) -> tuple[list[tuple[str, str]], str]:
    """Return the header fields and the README of a wheel whose pyproject.toml names ``repository``."""
    shutil.copytree(ROOT / "src" / "toolwire" / "core", folder / "src" / "toolwire" / "core")
    for name in ("README.md", "LICENSE", "release/metadata.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'repository = ""' in text
    (folder / "pyproject.toml").write_text(text.replace('repository = ""', f'repository = "{repository}"'), "utf-8")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", "out"], cwd=folder, check=True, timeout=120)
    (wheel,) = (folder / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        read = HeaderParser().parsestr(opened.read(f"toolwire-{__version__}.dist-info/METADATA").decode())
    return read.items(), read.get_payload()


@pytest.mark.requirement("RE-06")
def test_metadata_name_authors_and_links_of_the_readme_work_without_the_files_beside_it(tmp_path: Path) -> None:
    fields, readme = build_metadata(tmp_path, "")
    assert ("Author", "The toolwire authors") in fields
    assert "Project-URL" not in dict(fields)
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", readme) == []
    assert "**Next: the tutorial**" in readme


@pytest.mark.requirement("RE-06")
def test_metadata_of_a_published_repository_have_its_urls(tmp_path: Path) -> None:
    fields, readme = build_metadata(tmp_path, "https://git.example/tools/toolwire")
    files = f"https://git.example/tools/toolwire/blob/v{__version__}"
    urls = dict(value.split(", ") for name, value in fields if name == "Project-URL")
    assert urls == {
        "Repository": "https://git.example/tools/toolwire",
        "Documentation": f"{files}/docs/README.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Security": f"{files}/SECURITY.md",
    }
    linked = re.findall(r"\]\(([^)]*)\)", readme)
    assert f"{files}/docs/tutorial.md" in linked
    assert [link for link in linked if not link.startswith((files, "https://", "#"))] == []
    assert all((ROOT / link.removeprefix(f"{files}/")).exists() for link in linked if link.startswith(files))
