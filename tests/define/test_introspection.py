"""What a program meets around a Toolkit: help(), json.dumps(), and Python without docstrings."""

from __future__ import annotations

import json
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from toolwire import Toolkit, connect_sync
from toolwire.core.lazy_mapping import LazyMapping
from toolwire.core.model import copy_tool, get_stored_schemas
from toolwire.define.options import Options

pytestmark = pytest.mark.requirement("RE-06")

KIT = '''
import json

from toolwire import Toolkit

kit = Toolkit("Desk")


@kit.tool
def add(a: int) -> int:
    """Add one.

    Args:
        a: the number.
    """
    return a + 1


class Doubled:
    """Double a number."""

    def __call__(self, x: int) -> int:
        return x + x

    def halve(self, x: int) -> float:
        """Halve a number."""
        return x / 2


kit.add(Doubled())
kit.add(Doubled().halve)
tools = [function.tool for function in kit.functions]
print(json.dumps([[tool.description for tool in tools], tools[0].input_schema["properties"]["a"]]))
'''


@pytest.mark.parametrize("flags", [[], ["-OO"]])
def test_descriptions_are_kept_by_python_without_docstrings(flags: list[str], tmp_path: Path) -> None:
    file = tmp_path / "kit.py"
    file.write_text(KIT, "utf-8")
    ended = subprocess.run([sys.executable, *flags, str(file)], capture_output=True, text=True, timeout=60, check=True)
    descriptions = ["Add one.", "Double a number.", "Halve a number."]
    assert json.loads(ended.stdout) == [descriptions, {"type": "integer", "description": "the number."}]


def test_help_lists_every_option_of_a_tool() -> None:
    text = pydoc.render_doc(Toolkit.tool, renderer=pydoc.plaintext)
    assert [name for name in get_type_hints(Options) if f"``{name}``" not in text] == []


@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_schemas_of_a_tool_are_written_by_json(protocol: str) -> None:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto")
    def add(a: int, b: int = 2) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}

    with connect_sync(kit, protocol=protocol) as remote:
        (tool,) = remote.tools
        assert json.loads(json.dumps(tool.input_schema))["properties"]["a"]["type"] == "integer"
        assert json.loads(json.dumps(tool.output_schema))["additionalProperties"] == {"type": "integer"}


def test_a_schema_of_a_document_is_built_when_it_is_read_first() -> None:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto")
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    with connect_sync(kit, protocol="openapi") as remote:
        (tool,) = remote.tools
        renamed = copy_tool(tool, name="sum")
        for one in (tool, renamed):
            assert isinstance(get_stored_schemas(one)["input_schema"], LazyMapping), (
                "neither listing nor copying builds"
            )
        assert renamed.name == "sum"
        assert type(tool.input_schema) is type(renamed.input_schema) is dict
