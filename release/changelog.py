"""Assemble the fragments in ``news/`` into a section of CHANGELOG.md, by feature, and delete them: ``make changelog``.

``release/features.toml`` has the features in the order of a reader, each with a sentence. A fragment names its feature
in brackets at its beginning; without that, it belongs to the first feature one of whose words it has. The version is
that of pyproject.toml. A section of this version that is there already keeps its text, which may be edited, and each
new change is added below its feature. In the section of the first release, changes and fixes before it are left out: no
user had the faults. ``--keep`` leaves the fragments where they are. Without fragments, nothing is written.
"""

from __future__ import annotations

import re
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CHANGELOG = ROOT / "CHANGELOG.md"
NEWS = ROOT / "news"
HEAD = "# Changes\n"
_KINDS = {"added": "", "changed": "Changed: ", "removed": "Removed: ", "security": "Security: ", "fixed": "Fixed: "}
_NAME = re.compile(r"[a-z0-9-]+\.(\w+)\.md")


def main() -> int:
    """Write the section; return the exit code."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    before = CHANGELOG.read_text(encoding="utf-8") if CHANGELOG.exists() else HEAD
    is_first = "\n## " not in before.replace(f"\n## {version} ", "\n")
    fragments = read_fragments(NEWS)
    if not fragments:  # RE-07: not even the date of the section changes
        print("There is nothing new in news/: CHANGELOG.md stays as it is.")
        return 0
    features = tomllib.loads((ROOT / "release" / "features.toml").read_text(encoding="utf-8"))["features"]
    day = datetime.now(UTC).date().isoformat()
    older = before.removeprefix(HEAD).lstrip("\n")
    title = f"{version} ({day})"
    if older.startswith(f"## {version} "):  # it grows as long as it is not released
        current, mark, rest = older.partition("\n## ")
        section, older = extend_section(title, current, fragments, features), f"## {rest}" if mark else ""
    else:
        section = build_section(title, fragments, features, is_first=is_first)
    CHANGELOG.write_text(f"{HEAD}\n{section}\n{older}".rstrip("\n") + "\n", encoding="utf-8")
    if "--keep" not in sys.argv:
        for name in fragments:
            (NEWS / name).unlink()
    return 0


def read_fragments(folder: Path) -> dict[str, str]:
    """Return the text of each fragment on one line, by the name of its file.

    Raises:
        SystemExit: a file has another name, or an unknown kind.
    """
    found: dict[str, str] = {}
    for file in sorted(folder.glob("*.md")):
        if file.name == "README.md":
            continue
        match = _NAME.fullmatch(file.name)
        if match is None or match[1] not in _KINDS:
            raise SystemExit(f"{file.name} is no fragment: ID.kind.md with one of {', '.join(_KINDS)}")
        found[file.name] = " ".join(file.read_text(encoding="utf-8").split())
    return found


def group_changes(fragments: dict[str, str], features: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the changes as lines of Markdown, by the title of their feature, in the order of a reader."""
    grouped: dict[str, list[str]] = {feature["title"]: [] for feature in features}
    for name, text in sorted(fragments.items(), key=_order):
        feature = find_feature(text, features)
        grouped[feature].append(f"- {_KINDS[name.split('.')[1]]}{text.removeprefix(f'[{feature}] ')}\n")
    return {title: lines for title, lines in grouped.items() if lines}


def build_section(title: str, fragments: dict[str, str], features: list[dict[str, Any]], *, is_first: bool) -> str:
    """Return the section of a release: its features with their changes."""
    if is_first:
        fragments = {name: text for name, text in fragments.items() if name.split(".")[1] in ("added", "security")}
    first = "\nThe first release. Everything is new; how each part works is in [the documentation](docs/README.md).\n"
    parts = [f"## {title}\n", first if is_first else ""]
    texts = {feature["title"]: feature.get("text", "").strip() for feature in features}
    for feature, lines in group_changes(fragments, features).items():
        intro = f"\n{texts[feature]}\n" if is_first and texts[feature] else ""
        parts.append(f"\n### {feature}\n{intro}\n{''.join(lines)}")
    return "".join(parts)


def extend_section(title: str, section: str, fragments: dict[str, str], features: list[dict[str, Any]]) -> str:
    """Return ``section`` with a new title, and with new changes below their features; all its text stays."""
    _, _, body = section.partition("\n")
    for feature, lines in group_changes(fragments, features).items():
        heading, new = f"### {feature}\n", "".join(lines)
        before, found, after = body.partition(heading)
        if not found:
            body = f"{body.rstrip()}\n\n{heading}\n{new}"
            continue
        own, mark, rest = after.partition("\n### ")
        body = f"{before}{heading}{own.rstrip()}\n{new}{mark}{rest}"
    return f"## {title}\n{body}"


def find_feature(text: str, features: list[dict[str, Any]]) -> str:
    """Return the title of the feature that the text names, or one of whose words it has; else the last."""
    for feature in features:
        if text.startswith(f"[{feature['title']}] "):
            return str(feature["title"])
    for feature in features:
        if re.search("|".join(feature["words"]), text):
            return str(feature["title"])
    return str(features[-1]["title"])


def _order(item: tuple[str, str]) -> tuple[int, str]:
    number, kind, _ = item[0].split(".")
    return list(_KINDS).index(kind), number


if __name__ == "__main__":
    sys.exit(main())
