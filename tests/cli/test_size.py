"""``toolwire size`` and ``toolwire overlay``: what tools cost, and a starter for an API that is not ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolwire.adapters.dialects import Provider

KIT = '''
from toolwire import Toolkit

kit = Toolkit("Sums")


@kit.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@kit.tool
def explain(text: str) -> str:
    """Explain a text, at length, with every word that is needed to understand what it means and where it is from."""
    return text
'''


def test_size_lists_the_largest_tool_first_and_the_total_last(toolwire: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "kit.py"
    file.write_text(KIT, encoding="utf-8")
    outcome = toolwire("size", file)
    head, *rows, total, note = outcome.out.splitlines()
    assert outcome.code == 0
    assert head.split() == ["TOOL", *(provider.upper() for provider in Provider)]
    assert [row.split()[0] for row in rows] == ["explain", "add"]
    assert total.startswith("total")
    assert "4 characters" in note
    data = json.loads(toolwire("size", file, "--json").out)
    for provider in Provider:
        assert data["total"][provider] == sum(tool[provider] for tool in data["tools"].values())
        assert 20 < data["tools"]["add"][provider] < 100


def test_overlay_command_writes_a_starter_for_a_document(toolwire: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "api.json"
    file.write_text('{"openapi": "3.1.0", "info": {"title": "A"}, "paths": {"/a": {"delete": {}}}}', encoding="utf-8")
    data = json.loads(toolwire("overlay", file).out)
    assert [action["target"] for action in data["actions"]] == ["$", "$['paths']['/a']['delete']"]
    assert toolwire("overlay", file, "-o", tmp_path / "o.json").code == 0
    assert json.loads((tmp_path / "o.json").read_text(encoding="utf-8")) == data
    edited = tmp_path / "o.json"
    edited.write_text("my decisions", encoding="utf-8")
    again = toolwire("overlay", file, "-o", edited)
    assert (again.code, edited.read_text(encoding="utf-8")) == (2, "my decisions")
    assert "o.json already exists. Name another file, or use --force to replace it." in again.err
    assert toolwire("overlay", file, "-o", edited, "--force").code == 0
    assert json.loads(edited.read_text(encoding="utf-8")) == data
    assert toolwire("overlay", file, "--force").code == 2
    file.write_text("<html>", encoding="utf-8")
    assert toolwire("overlay", file).code == 2


def test_size_measures_all_operations_of_a_document_without_offers_on_request(
    toolwire: Callable[..., Any], tmp_path: Path
) -> None:
    reply = {"openapi": "3.1.0", "info": {"title": "T"}, "servers": [{"url": "https://api.test"}]}
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps({**reply, "paths": {"/a": {"get": {"operationId": "readA", "summary": "Read."}}}}))
    assert toolwire("size", file).code != 0
    outcome = toolwire("size", file, "--include", "all")
    assert outcome.code == 0
    assert "readA" in outcome.out
