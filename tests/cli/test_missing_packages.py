"""A missing package is named with the extra that brings it, wherever it is first needed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from toolwire.core.lazy_import import _EXTRAS

BLOCK = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Block())
"""
ADAPTERS = {
    "toolwire.adapters.ag2": "ag2",
    "toolwire.adapters.anthropic": "anthropic",
    "toolwire.adapters.crewai": "crewai",
    "toolwire.adapters.gemini": "gemini",
    "toolwire.adapters.google_adk": "google-adk",
    "toolwire.adapters.haystack": "haystack",
    "toolwire.adapters.langchain": "langchain",
    "toolwire.adapters.llama_index": "llama-index",
    "toolwire.adapters.openai": "openai",
    "toolwire.adapters.openai_agents": "openai-agents",
    "toolwire.adapters.openai_responses": "openai",
    "toolwire.adapters.pydantic_ai": "pydantic-ai",
    "toolwire.adapters.smolagents": "smolagents",
    "toolwire.integrations.fastapi": "fastapi",
    "toolwire.integrations.starlette": "starlette",
    "toolwire.integrations.wsgi": "wsgi",
    "toolwire.testing:background": "server",
    "toolwire.opentool:OpenToolServer": "server",
    "toolwire.protocols.openapi.document.overlay_target": "overlay",
}
PACKAGES = {
    *("ag2", "anthropic", "crewai", "google", "haystack", "langchain_core", "llama_index", "openai", "agents"),
    *("pydantic_ai", "smolagents", "fastapi", "starlette", "a2wsgi", "uvicorn", "jsonpath_rfc9535"),
}
IMPORT = """
import json

said = {{}}
for place in {places}:
    module, _, name = place.partition(":")
    try:
        exec(f"from {{module}} import {{name}}" if name else f"import {{module}}")
    except Exception as error:
        said[place] = f"{{type(error).__name__}}: {{error}}"
print(json.dumps(said))
"""


def run(program: str, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", BLOCK.format(blocked=PACKAGES) + program, *words]
    return subprocess.run(line, input=text, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.requirement("RE-04", "FU-59")
def test_every_module_that_needs_a_package_names_its_extra() -> None:
    ended = run(IMPORT.format(places=list(ADAPTERS)))
    expected = {
        place: f"ModuleNotFoundError: This needs an optional package: pip install 'toolwire[{extra}]'."
        for place, extra in ADAPTERS.items()
    }
    assert json.loads(ended.stdout) == expected


DOCUMENTED = re.compile(r"^from (toolwire[\w.]*) import (\w+(?:, \w+)*)$", re.MULTILINE)
ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


@pytest.mark.requirement("RE-04")
def test_every_import_in_the_docs_works_without_extras_or_names_its_extra() -> None:
    found = [one for page in PAGES for one in DOCUMENTED.findall(page.read_text("utf-8"))]
    places = sorted({f"{module}:{name}" for module, names in found for name in names.split(", ")})
    blocked = {package for package in _EXTRAS if package != "httptools"}
    line = [sys.executable, "-c", BLOCK.format(blocked=blocked) + IMPORT.format(places=places)]
    data = json.loads(subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert len(places) > 60
    assert data["toolwire.opentool:OpenToolServer"].endswith("pip install 'toolwire[server]'.")
    assert [place for place, text in data.items() if "toolwire[" not in text] == []


COMMAND = "from toolwire.cli import main\nsys.argv = ['toolwire', *sys.argv[1:]]\nsys.exit(main())\n"


@pytest.mark.requirement("RE-04")
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["console", "--no-open"], "server"),
        (["serve", "{kit}", "--port", "0"], "server"),
        (["tools", "{document}", "--overlay", "{overlay}"], "overlay"),
        (["check", "{overlay}"], "overlay"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(words: list[str], extra: str, write: Callable[..., Path]) -> None:
    kit = write("kit.py", "from toolwire import Toolkit\nkit = Toolkit('Desk')\n")
    document = write("openapi.json", '{"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "paths": {}}')
    update = {"target": "$.info", "update": {"title": "x"}}
    overlay = write(
        "overlay.json", json.dumps({"overlay": "1.0.0", "info": {"title": "a", "version": "1"}, "actions": [update]})
    )
    given = [word.format(kit=kit, document=document, overlay=overlay) for word in words]
    ended = run(COMMAND, *given)
    assert ended.stderr == f"toolwire: This needs an optional package: pip install 'toolwire[{extra}]'.\n"
    assert ended.returncode == 2


@pytest.mark.requirement("RE-04")
def test_a_server_on_standard_input_and_output_needs_no_uvicorn(write: Callable[..., Path]) -> None:
    kit = write("kit.py", "from toolwire import Toolkit\nkit = Toolkit('Desk')\n")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    ended = run(COMMAND, "serve", str(kit), "--stdio", text=json.dumps(message) + "\n")
    assert json.loads(ended.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "Desk"
    assert ended.returncode == 0
