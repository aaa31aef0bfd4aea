"""The documentation in a browser: it is searched without another host, and its links lead on.

Its colours change, its code is copied, and another version can be opened.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.staticfiles import StaticFiles

ROOT = Path(__file__).parents[2]


@pytest.mark.requirement("FU-41")
@pytest.mark.requirement("FD-07")
def test_a_reader_searches_the_documentation_and_opens_what_was_found(
    page: Any, serve: Callable[[Callable[[str], Any]], str], picture: Callable[[Any, str], None], tmp_path: Path
) -> None:
    (tmp_path / "site" / "0.9").mkdir(parents=True)  # as an older version was built
    (tmp_path / "site" / "0.9" / "index.html").write_text("<h1>The old pages</h1>")
    (tmp_path / "site" / "0.9" / "sitemap.xml").write_text("<urlset/>")
    subprocess.run([sys.executable, ROOT / "spec" / "docs_site.py", tmp_path], capture_output=True, check=True)
    site = serve(lambda _: StaticFiles(directory=tmp_path / "site", html=True))
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{site}/index.html")
    page.get_by_role("heading", level=1, name="toolwire").wait_for()
    picture(page, "docs-start")
    page.get_by_role("heading", name="I use an assistant").wait_for()
    assert page.get_by_role("button", name="Copy to clipboard").count() >= 3
    scheme = page.locator("body[data-md-color-scheme=slate]")
    assert scheme.count() == 0
    page.locator("label[for=__palette_1]").click()
    scheme.wait_for(state="attached")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("combobox").fill("mcpo")
    found = page.get_by_role("option", name="Coming from mcpo").first
    found.wait_for()
    picture(page, "docs-search")
    found.click()
    page.get_by_role("heading", level=1, name="Coming from mcpo").wait_for()
    page.get_by_role("link", name="a gateway", exact=True).first.click()
    page.get_by_role("heading", level=1, name="Run a gateway").wait_for()
    page.get_by_role("button", name="Select version").focus()
    page.get_by_role("link", name="0.9").click()
    page.get_by_role("heading", name="The old pages").wait_for()
    assert [url for url in requests if not url.startswith((site, "data:", "blob:"))] == []
    assert errors == []
