"""mypy finds each way by which text would get into a page without an escape."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = """
from typing import Any, Final, Literal
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_text
from toolwire.framing.html_page import build_facts, build_fold, build_notice, build_table

SIGN: Final = "*"
WORDS = {"a": "b"}


def build_right(name: str, count: int, kind: Literal["a", "b"], html: Html, share: float | None) -> Html:
    opened = Html(" open") if count else NO_HTML
    part = Html(f"<details{opened} class='{kind}'>{escape_text(name)} {share or 0:.1f} {SIGN}</details>")
    more = Html(f"<p>{f'<b>{html}</b>' if count else ''}{html or 'none'}{' checked' if count else ''} {count:,}</p>")
    items = join_html(Html(f"<li>{show_text(one)}</li>") for one in name.split())
    table = build_table(("A",), [[escape_text(name)]])
    return Html(f"{part}{more}{items}{table}{Html('a' if count else 'b')}{build_facts([(name, html)])}")


def build_wrong(name: str, count: int, html: Html, data: Any, choice: str | None) -> list[Html]:
    return [
        Html(name),  # wrong
        Html(f"{name}"),  # wrong
        Html(f"<p>{name}</p>"),  # wrong
        Html(f"<p title='{name}'>{html}</p>"),  # wrong
        Html(f"<p>{html}{name!r}</p>"),  # wrong
        Html(f"<p>{html:>9}{count:{count}}</p>"),  # wrong
        Html(f"<p>{html if count else name}</p>"),  # wrong
        Html(f"<p>{html or name}</p>"),  # wrong
        Html(f"<p>{f'<b>{name}</b>'}</p>"),  # wrong
        Html(f"<p>{data}</p>"),  # wrong
        Html(f"<p>{choice}</p>"),  # wrong
        Html(f"<p>{WORDS[name]}</p>"),  # wrong
        Html(f"<p>{html.upper()}</p>"),  # wrong
        Html("<p>" + name),  # wrong
        Html("<p>{}</p>".format(name)),  # wrong
        Html("<p>%s</p>" % name),  # wrong
        Html("".join([name])),  # wrong
        f"<p>{html}</p>",  # wrong
        html + html,  # wrong
        name,  # wrong
        escape_text(html),  # wrong
        join_html(f"<p>{one}</p>" for one in name),  # wrong
        build_fold("More", name),  # wrong
        build_facts([("A", name)]),  # wrong
        build_table(("A",), [[name]]),  # wrong
    ]
"""


@pytest.mark.requirement("D-25")
def test_text_in_a_page_is_an_error_unless_it_was_escaped(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(SAMPLE)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(sample)]
    done = subprocess.run(
        [*command, "--cache-dir", str(tmp_path / "cache")], capture_output=True, text=True, cwd=ROOT, check=False
    )
    found = {int(one) for one in re.findall(r"sample\.py:(\d+): error", done.stdout)}
    wanted = {number for number, line in enumerate(SAMPLE.split("\n"), 1) if line.endswith("# wrong")}
    assert found == wanted, done.stdout + done.stderr


@pytest.mark.requirement("D-25")
def test_html_is_made_by_calls_that_mypy_sees() -> None:
    """A plugin checks calls. ``map(Html, texts)`` and ``cast(Html, text)`` would get past it."""
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        assert not re.search(r"\b(?:map|cast|partial)\(\"?Html\b|= Html$|Html\.__call__", text, re.MULTILINE), path
