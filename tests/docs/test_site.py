"""The documentation as a site: it builds without a warning, each link holds, and nothing comes from another host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import toolwire
from toolwire.hosting.mcp_hosts.host_files import HOSTS

from .page import ROOT

pytestmark = pytest.mark.requirement("FU-41")

_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site. A warning of the build is an error."""
    folder = tmp_path_factory.mktemp("docs")
    built = subprocess.run(
        [sys.executable, ROOT / "spec" / "docs_site.py", folder], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder / "site" / ".".join(toolwire.__version__.split(".")[:2])


class PageReader(HTMLParser):
    """What a page links, loads and can be linked at."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.update(filter(None, (values.get("id"), values.get("name") if tag == "a" else None)))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        if _LOADED.get(tag) in values and values.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(values[_LOADED[tag]] or "")


@cache
def read_page(page: Path) -> PageReader:
    reader = PageReader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


def list_broken_links(site: Path) -> Iterator[str]:
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # it is served at any path
            continue
        for link in [*read_page(page).links, *read_page(page).loaded]:
            name, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", name):
                continue
            target = (page.parent / name).resolve() if name else page
            if target.is_dir():
                target /= "index.html"
            if not target.is_file() or (anchor and anchor not in read_page(target).anchors):
                yield f"{page.relative_to(site)}: {link}"


def test_every_link_of_the_site_leads_to_a_page_and_a_place_on_it(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > 120
    assert list(list_broken_links(site)) == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    loaded = {link for page in site.rglob("*.html") for link in read_page(page).loaded}
    assert any(link.endswith(".css") for link in loaded)
    assert [link for link in loaded if re.match(r"(?:[a-z]+:)?//", link)] == []
    styles = [style.read_text(encoding="utf-8") for style in site.rglob("*.css")]
    assert [
        found for style in styles for found in re.findall(r"@import[^;]*|url\([\"']?(?:https?:)?//[^)]*", style)
    ] == []


def test_every_page_of_the_repository_and_every_public_name_is_in_the_site(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    pages -= {Path("README.html"), Path("decisions/README.html")}  # the lists of pages have other names there
    assert [page for page in pages if not (site / page).is_file()] == []
    anchors = {one for page in (site / "reference" / "python").glob("*.html") for one in read_page(page).anchors}
    assert {name.lower() for name in toolwire.__all__} - anchors == set()


def test_each_host_has_a_page_and_each_sdk_is_listed_with_one(site: Path) -> None:
    assert {page.stem for page in (site / "how-to" / "hosts").glob("*.html")} == HOSTS.keys()
    adapters = (ROOT / "docs" / "how-to" / "adapters.md").read_text(encoding="utf-8")
    modules = set(re.findall(r"^\| \[[^|]*\]\(sdks/([\w-]+)\.md\) \|", adapters, re.MULTILINE))
    assert modules == {page.stem for page in (site / "how-to" / "sdks").glob("*.html")}


def test_search_index_has_the_pages(site: Path) -> None:
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    assert "how-to/coming-from-fastmcp.html" in json.dumps(index)


@pytest.mark.requirement("FD-07")
def test_each_page_is_there_as_markdown_and_names_it(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert [page for page in pages if not page.with_suffix(".md").read_text(encoding="utf-8").strip()] == []
    named = '<link rel="alternate" type="text/markdown" href="{}">'
    assert [
        page for page in pages if named.format(page.with_suffix(".md").name) not in page.read_text(encoding="utf-8")
    ] == []
    workers = (site / "how-to" / "several-processes.md").read_text(encoding="utf-8")
    assert "](../reference/" in workers
    assert "{ #" not in workers


@pytest.mark.requirement("FD-07")
@pytest.mark.parametrize("place", [".", ".."])
def test_list_for_models_names_every_page_once(site: Path, place: str) -> None:
    file = site / place / "llms.txt"
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# toolwire\n\n> ")
    links = [(file.parent / link).resolve() for link in re.findall(r"^- \[[^]]+\]\(([^)]+)\)$", text, re.MULTILINE)]
    assert len(links) == len(set(links))
    pages = {page.resolve() for page in site.rglob("*.md") if not {"decisions", "project"} & set(page.parts)}
    assert pages - set(links) == set()
    assert [link for link in links if not link.is_file()] == []


@pytest.mark.requirement("FD-07")
def test_versions_are_listed_and_the_start_page_leads_to_the_newest(site: Path) -> None:
    versions = json.loads((site.parent / "versions.json").read_text(encoding="utf-8"))
    assert versions == [{"version": site.name, "title": site.name, "aliases": ["latest"]}]
    assert f'content="0; url={site.name}/index.html"' in (site.parent / "index.html").read_text(encoding="utf-8")


@pytest.mark.requirement("FD-07")
def test_start_page_has_a_way_in_for_each_kind_of_reader(site: Path) -> None:
    assert {"i-write-tools", "i-build-an-agent", "i-use-an-assistant"} <= read_page(site / "index.html").anchors
