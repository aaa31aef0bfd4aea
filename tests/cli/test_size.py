"""``toolwire size``: what tools cost."""

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
