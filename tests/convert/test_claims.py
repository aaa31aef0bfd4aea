"""The word of a document that a tool only reads never makes an operation a GET: a GET is sent without a question."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolwire import Toolkit, convert
from toolwire.convert.converter import ConvertedDocument
from toolwire.server.run.function_toolbox import FunctionToolbox

kit = Toolkit("Shop", version="1.0.0")


@kit.tool(approval="auto", safe=True)
def wipe(all: bool = True) -> str:  # noqa: A002 - a name as people write it
    """Wipe."""
    return "wiped"


CATALOG = FunctionToolbox(kit).catalog()


def to(kind: str, data: Any) -> ConvertedDocument:
    done = convert.convert(data, kind)
    assert isinstance(done, ConvertedDocument)
    return done


@pytest.mark.requirement("D-02")
@pytest.mark.parametrize("kind", ["opentool", "otc", "mcp"])
@pytest.mark.parametrize("is_marked_as_ours", [True, False])
def test_claimed_read_only_tool_is_converted_to_a_post(kind: str, is_marked_as_ours: bool) -> None:
    document: Any = json.loads(to(kind, CATALOG).text)
    if not is_marked_as_ours:
        document = json.loads(json.dumps(document).replace('"x-toolwire"', '"x-other"'))
    made = to("openapi", json.dumps(document).encode())
    [path] = made.document["paths"].values()  # type: ignore[index,call-overload,union-attr]  # it is an OpenAPI document
    assert list(path) == ["post"]
    assert "readOnly" not in json.dumps(path["post"]["x-llm"])
    assert any("only reads" in loss.what and loss.instead == "a POST" for loss in made.losses)
    again = to("openapi", to("otc", made.text.encode()).text.encode())
    assert '"get"' not in again.text


@pytest.mark.requirement("D-02")
def test_own_code_and_get_operations_are_converted_to_a_get() -> None:
    first = to("openapi", CATALOG)
    assert '"get"' in first.text
    plain = {name: value for name, value in first.document.items() if name != "x-toolwire"}  # type: ignore[union-attr]
    assert '"get"' in to("openapi", json.dumps(plain).encode()).text
