"""Build the documentation as a site: ``python spec/docs_site.py [FOLDER]`` (``make docs``).

The pages are those of the repository, as they are read there. This script copies them below ``FOLDER``, points their
links at the pages of the site, and has Zensical build them. The build is strict: a warning, or a link that leads
nowhere, ends it with 1.

The site of a version is in ``FOLDER/site/1.0``. Versions that were built there before stay, and each page offers them.
For models, each page is also there as Markdown, and ``llms.txt`` lists all of them (FD-07).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path, PurePosixPath
from posixpath import relpath

from python_reference import find_title, group_sections

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = ROOT / ".cache" / "docs-site"
_EXTRA = ROOT / "docs" / "site"
_MOVED = {
    "docs/decisions/README.md": "decisions/index.md",
    "README.md": "overview.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security-policy.md",
    "VERSIONING.md": "project/versions.md",
    "CHANGELOG.md": "project/changelog.md",
    "docs/README.md": "index.md",
    "news/README.md": "project/change-notes.md",
}
_FENCE = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(`[^`\n]*`)|(!?\[(?:[^\]`]|`[^`]*`)*\]\()([^)\s]+)\)")
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *#*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z]+:")
_ANCHOR = re.compile(r"(?m)(^#{1,6} .+?) \{ #[^}\n]* \}$")
_DESCRIPTION = (
    "Give any AI model tools that ask first. Offer functions, web applications and APIs over MCP and OpenAPI."
)
_START = "Start here"
_KINDS = {"output": "Output"}


def main(folder: Path) -> int:
    """Build the site in ``folder``, below ``site``; return the exit code."""
    folder = folder.resolve()
    version = ".".join(import_module("toolwire").__version__.split(".")[:2])
    for old in ("pages", f"site/{version}"):
        shutil.rmtree(folder / old, ignore_errors=True)
    write_pages(folder / "pages")
    (folder / "zensical.toml").write_text(build_config(version), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", "zensical.toml"]
    built = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"}
    )
    said = built.stdout + built.stderr
    if built.returncode or re.search(r"\b(?:warning|error)", said, re.IGNORECASE):
        print(said, file=sys.stderr)
        return 1
    add_markdown(folder / "pages", folder / "site" / version)
    add_version(folder / "site", version)
    print(f"The documentation is at {folder / 'site' / version / 'index.html'}.")
    return 0


def add_markdown(pages: Path, site: Path) -> None:
    """Write the Markdown of each page beside its HTML, which names it, and ``llms.txt`` with all of them."""
    for page in pages.rglob("*.md"):
        place = site / page.relative_to(pages)
        place.write_text(_ANCHOR.sub(r"\1", page.read_text(encoding="utf-8")), encoding="utf-8")
        html = place.with_suffix(".html")
        link = f'<link rel="alternate" type="text/markdown" href="{place.name}">'
        html.write_text(html.read_text(encoding="utf-8").replace("</head>", f"{link}</head>", 1), encoding="utf-8")
    (site / "llms.txt").write_text(build_llms_list(), encoding="utf-8")


def build_llms_list(base: str = "") -> str:
    """Return the list of the pages for models, with links that begin with ``base``: the navigation as Markdown."""

    def build_lines(item: object, title: str = "") -> Iterator[str]:
        match item:
            case str():
                yield f"- [{title or 'Start'}]({base}{item})"
            case dict():
                for name, one in item.items():
                    yield from build_lines(one, name)
            case [*several]:
                for one in several:
                    yield from build_lines(one, title)

    parts = [f"# toolwire\n\n> {_DESCRIPTION}\n"]
    for section in build_navigation():
        for name, items in section.items():
            parts.append(f"\n## {name}\n\n" + "\n".join(build_lines(items, name)) + "\n")
    return "".join(parts)


def add_version(site: Path, version: str) -> None:
    """Write the list of the versions in ``site``, newest first; its start page leads to the newest."""
    versions = sorted(
        {version, *(one.name for one in site.iterdir() if re.fullmatch(r"\d+\.\d+", one.name))},
        key=lambda one: tuple(map(int, one.split("."))),
        reverse=True,
    )
    newest = versions[0]
    listed = [{"version": one, "title": one, "aliases": ["latest"] if one == newest else []} for one in versions]
    (site / "versions.json").write_text(json.dumps(listed), encoding="utf-8")
    (site / "index.html").write_text(
        '<!doctype html><html lang="en"><title>toolwire</title>'
        f'<meta http-equiv="refresh" content="0; url={newest}/index.html">'
        f'<a href="{newest}/index.html">The documentation of toolwire {newest}</a></html>\n',
        encoding="utf-8",
    )
    if version == newest:
        (site / "llms.txt").write_text(build_llms_list(f"{version}/"), encoding="utf-8")


def write_pages(folder: Path) -> None:
    """Write every page of the site into ``folder``, and the files that they show."""
    sources = list_sources()
    for source, target in sources.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        _write(folder / target, convert_page(text, partial(_resolve_link, source, target, sources)))
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures")
    shutil.copytree(_EXTRA, folder / "assets")
    for example in (ROOT / "examples").glob("*.py"):
        _write(folder / "examples" / example.name, example.read_text(encoding="utf-8"))


def list_sources() -> dict[PurePosixPath, PurePosixPath]:
    """Return where each page of the repository is in the site."""
    found = {PurePosixPath(source): PurePosixPath(target) for source, target in _MOVED.items()}
    for page in sorted((ROOT / "docs").rglob("*.md")):
        source = PurePosixPath(page.relative_to(ROOT).as_posix())
        found.setdefault(source, source.relative_to("docs"))
    return {source: target for source, target in found.items() if (ROOT / source).exists()}


def convert_page(text: str, resolve: Callable[[str], str]) -> str:
    """Return a page with the links, the headings and the blocks of code that the site needs."""
    parts: list[str] = []
    anchors: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [_convert_prose(text[end : fence.start()], resolve, anchors), _convert_fence(fence)]
        end = fence.end()
    return "".join([*parts, _convert_prose(text[end:], resolve, anchors)])


def _convert_fence(fence: re.Match[str]) -> str:
    language, name, text = fence.groups()
    if name == "signature":  # of a Python name: it is highlighted, and not run
        return f"```python\n{text}```"
    name = name.strip().removeprefix("peer ")
    title = f' title="{_KINDS.get(name, name)}"' if name else ""
    return f"```{language}{title}\n{text}```"


def _convert_prose(text: str, resolve: Callable[[str], str], anchors: list[str]) -> str:
    def convert_link(match: re.Match[str]) -> str:
        code, before, link = match.groups()
        return code if code else f"{before}{link if _ELSEWHERE.match(link) else resolve(link)})"

    def convert_heading(match: re.Match[str]) -> str:
        # The site has the anchors that GitHub makes, so that one link is valid in both.
        return f"{match[1]} {match[2]} {{ #{make_anchor(match[2], anchors)} }}"

    return _LINK.sub(convert_link, _HEADING.sub(convert_heading, text))


def make_anchor(heading: str, before: list[str]) -> str:
    """Return the anchor of a heading as GitHub makes it, and add it to those ``before`` it on the page."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    same = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", one) is not None for one in before)
    before.append(f"{anchor}-{same}" if same else anchor)
    return before[-1]


def _resolve_link(
    source: PurePosixPath,
    target: PurePosixPath,
    sources: Mapping[PurePosixPath, PurePosixPath],
    link: str,
) -> str:
    """Return the link of a page of the repository as one of the site."""
    name, _, anchor = link.partition("#")
    file = PurePosixPath(relpath(source.parent / name, ".")) if name else source
    if file in sources:
        place = sources[file]
    elif file == PurePosixPath("docs/decisions"):
        place = PurePosixPath("decisions/index.md")
    else:  # a picture or an example
        place = file.relative_to("docs") if file.is_relative_to("docs") else file
        if not (ROOT / file).exists():
            raise LookupError(f"{source} links {link}, which is not there")
    return (relpath(place, target.parent) if name else "") + (f"#{anchor}" if anchor else "")


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def build_navigation() -> list[dict[str, list[object]]]:
    """Return the navigation: the headings of the index in ``docs/README.md``, with the links below each."""
    sources = list_sources()
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    top: list[dict[str, list[object]]] = [
        {_START: ["index.md", {"Tutorial": "tutorial.md"}, {"Overview": "overview.md"}]}
    ]
    for part in re.split(r"(?m)^## ", index)[1:]:
        title, _, text = part.partition("\n")
        if title == _START:
            continue
        groups: list[object] = []
        for group in re.split(r"\n(?=[A-Z][^\n]*:\n\n)", text):
            links = [
                {_write_title(name): str(sources[PurePosixPath(relpath(f"docs/{link}", "."))])}
                for name, link in re.findall(r"\[([^\]]+)\]\(([^)#]+\.md)\)", group)
                if link != "reference/python.md"  # it is the first page of its own group, below
            ]
            named = re.match(r"([A-Z][^\n]*):\n\n", group)
            groups += [{named[1]: links}] if named else links
        if title == "Reference":
            names = [{find_title(sections): f"reference/python/{name}.md"} for name, sections in group_sections()]
            groups.append({"Python": ["reference/python.md", *names]})
        if title == "Background":
            groups += [{"Decisions": ["decisions/index.md"]}]
        top.append({title: groups})
    return top


def _write_title(link: str) -> str:
    """Return the text of a link, which may go over two lines, as a title."""
    text = " ".join(link.replace("`", "").split())
    return text[:1].upper() + text[1:]


def build_config(folder: str) -> str:
    """Return the configuration of Zensical for the site in ``folder``. A TOML value is written as JSON."""
    version = import_module("toolwire").__version__
    return f"""\
[project]
site_name = "toolwire {version}"
site_description = "{_DESCRIPTION}"
docs_dir = "pages"
site_dir = "site/{folder}"
use_directory_urls = false
nav = {_write_toml(build_navigation())}
extra_css = ["assets/style.css"]
copyright = "MIT licence"

[project.theme]
language = "en"
font = false
favicon = "assets/icon.svg"
logo = "assets/icon.svg"
features = [
  "content.code.copy", "navigation.indexes", "navigation.path",
  "navigation.prune", "navigation.tabs", "navigation.top", "search.highlight", "toc.follow",
]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Light"

[project.extra]
generator = false
version.provider = "mike"
version.default = "latest"

[project.markdown_extensions]
attr_list = {{}}
tables = {{}}
toc.permalink = true
pymdownx.highlight.pygments_lang_class = true
pymdownx.superfences = {{}}
"""


def _write_toml(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(name)} = {_write_toml(one)}" for name, one in value.items()) + "}"
        case [*several]:
            return "[" + ", ".join(map(_write_toml, several)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT))
