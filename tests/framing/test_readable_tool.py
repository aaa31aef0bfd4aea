"""What describes a tool hides nothing; what a call is made of stays as it is."""

import pytest

from toolwire.core.model import Tool
from toolwire.framing.text_cleaning import make_readable

HIDDEN = "do\u200b it\U000e0069"
SCHEMA = {
    "type": "object",
    "description": HIDDEN,
    "properties": {HIDDEN: {"anyOf": [{"title": HIDDEN, "enum": [HIDDEN], "examples": [HIDDEN]}, True]}},
    "additionalProperties": {"$ref": "#/$defs/a"},
    "$defs": {"a": {"$comment": HIDDEN, "items": {"description": HIDDEN}}},
}


@pytest.mark.requirement("D-01")
def test_make_readable_cleans_descriptions_and_keeps_compared_values() -> None:
    tool = make_readable(Tool(name="x", description=HIDDEN, hint=HIDDEN, input_schema=SCHEMA))
    assert (tool.description, tool.hint) == ("do it", "do it")
    assert tool.input_schema == {
        "type": "object",
        "description": "do it",
        "properties": {HIDDEN: {"anyOf": [{"title": "do it", "enum": [HIDDEN], "examples": ["do it"]}, True]}},
        "additionalProperties": {"$ref": "#/$defs/a"},
        "$defs": {"a": {"$comment": "do it", "items": {"description": "do it"}}},
    }


def test_make_readable_returns_the_same_tool_if_nothing_is_hidden() -> None:
    tool = Tool(name="x", description="Plain \u540d", input_schema={"properties": {"a": {"description": "\u00e9"}}})
    assert make_readable(tool) is tool
