"""The sample in TypeScript: a Hono application is a site with tools, without toolwire on its side."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from tests.interop.mcp_suite import INSTALLED as HAS_NODE
from tests.interop.mcp_suite import NODE
from toolwire import Answer, Kind, Problem, Question, connect_sync

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "hono"
MODULES = ROOT / ".cache" / "hono" / "node_modules"
PAGE = (ROOT / "docs" / "how-to" / "hono.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```", re.DOTALL | re.MULTILINE)

pytestmark = [
    pytest.mark.requirement("SE-06"),
    pytest.mark.skipif(
        not (HAS_NODE and MODULES.is_dir()),
        reason="there is no Hono: `make test` installs it with npm, which needs a network",
    ),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of the sample, which runs as `npm start` runs it."""
    folder = tmp_path_factory.mktemp("hono")
    for name in ("app.ts", "package.json"):
        shutil.copy(SAMPLE / name, folder)
    (folder / "node_modules").symlink_to(MODULES)
    command = [NODE, "app.ts"]
    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PORT": "0"}, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        yield url
        server.terminate()


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as response:
        return json.load(response)


def test_a_library_on_hono_has_tools_with_consent(library: str) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> Answer | bool:
        asked.append(question)
        return question.call.tool.name == "lendBook"

    with connect_sync(library, approve=approve) as remote:
        assert remote.peer.protocol == "openapi"
        assert [tool.name for tool in remote.tools] == ["discardBook", "lendBook", "listBooks"]
        assert [one["title"] for one in remote.call("listBooks").unwrap()] == ["Walden", "Emma"]
        assert not asked, "a read that the site declares as auto asks nobody"
        assert remote.call("lendBook", {"id": 1, "reader": "Bo"}).unwrap()["lentTo"] == "Bo"
        again = remote.call("lendBook", {"id": 1, "reader": "Cy"})
        assert isinstance(again, Problem)
        assert again.kind is Kind.CONFLICT
        denied = remote.call("discardBook", {"id": 1})
        assert isinstance(denied, Problem)
        assert denied.kind is Kind.DENIED
        assert len(remote.call("listBooks").unwrap()) == 2
    assert [(one.call.tool.name, one.call.tool.destructive) for one in asked] == [
        ("lendBook", False),
        ("lendBook", False),
        ("discardBook", True),
    ]


def test_its_document_is_valid_and_the_same_at_both_places(library: str) -> None:
    document = fetch(f"{library}/openapi.json")
    validate(document)
    assert fetch(f"{library}/.well-known/openapi.json") == document
    assert fetch(f"{library}/.well-known/llm.json") == {"openapi": "/openapi.json"}


def test_the_page_shows_the_sample_as_it_is(library: str, tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE)
    excerpts = [text for language, _, text in blocks if language == "ts"]
    code = (SAMPLE / "app.ts").read_text(encoding="utf-8")
    assert len(excerpts) == 3
    assert [text for text in excerpts if text not in code] == []
    session = next(text for _, name, text in blocks if name == "session")
    command, _, expected = session.partition("\n")
    words = command.removeprefix("$ toolwire ").replace("http://127.0.0.1:9660", library).split()
    done = subprocess.run(
        [sys.executable, "-m", "toolwire", *words],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "COLUMNS": "120", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [line.rstrip() for line in done.stdout.splitlines()] == [line.rstrip() for line in expected.splitlines()]
