"""``toolwire find`` and ``find_tools``: the tools for a task, as a model is told of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire import connect_sync


@pytest.mark.requirement("FI-01")
def test_find_prints_what_a_model_reads(site: str, desk: Path, toolwire: Callable[..., Any]) -> None:
    for target in (site, desk):
        outcome = toolwire("find", target, "shredding", "pages")
        assert outcome.code == 0
        assert outcome.out.splitlines()[0].startswith("shred(")
        assert " · asks" in outcome.out.splitlines()[0]
        found = json.loads(toolwire("find", target, "shredding pages", "--json", "--limit", "1").out)
        assert [tool["name"] for tool in found] == ["shred"]
        assert toolwire("find", target, "weather").out.startswith("No tool matches these words.")


@pytest.mark.requirement("FI-01")
def test_find_tools_of_a_connection_returns_the_tools_and_the_text(site: str) -> None:
    with connect_sync(site) as remote:
        found = remote.find_tools("shredding pages", limit=1)
        assert list(found.tools) == ["shred"]
        assert str(found).startswith("shred(")
