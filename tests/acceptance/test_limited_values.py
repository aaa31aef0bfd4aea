"""A parameter with few values lists them in ``enum``, wherever the tool is described, and no other value is taken."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import Any, Literal

import pytest

from toolwire import Kind, Problem, Toolkit, asgi, connect_sync
from toolwire.protocols import BUILTIN
from toolwire.testing.loopback import background


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Level(IntEnum):
    LOW = 1
    HIGH = 9


EXPECTED = {
    "colour": ("string", ["red", "green"]),
    "size": ("string", ["small", "large"]),
    "level": ("integer", [1, 9]),
    "round": ("integer", [2, 3]),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    kit = Toolkit("Paint")

    @kit.tool(approval="auto", safe=True)
    def paint(colour: Literal["red", "green"], size: Size, level: Level, round: Literal[2, 3]) -> str:  # noqa: A002
        """Paint."""
        return f"{colour} {size.value} {int(level)} {round}"

    with background(asgi(kit)) as base:
        yield base


@pytest.mark.requirement("OT-026", "A-02")
def test_the_document_lists_the_values_of_literals_and_enums(url: str) -> None:
    with urllib.request.urlopen(f"{url}/opentool/load", timeout=30) as response:
        document: dict[str, Any] = json.load(response)
    (function,) = document["functions"]
    found = {one["name"]: (one["schema"]["type"], one["schema"]["enum"]) for one in function["parameters"]}
    assert found == EXPECTED


@pytest.mark.requirement("OT-026")
@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_every_protocol_lists_enum_values_and_accepts_no_other(url: str, protocol: str) -> None:
    given = {"colour": "red", "size": "large", "level": 9, "round": 3}
    with connect_sync(url, protocol=protocol, agree=lambda _: True) as remote:
        (tool,) = remote.tools
        text = json.dumps(dict(tool.input_schema))
        for _, values in EXPECTED.values():
            assert json.dumps(values) in text
        assert remote.call("paint", given).value == "red large 9 3"  # type: ignore[union-attr]
        for name, value in given.items():
            refused = remote.call("paint", given | {name: "blue" if isinstance(value, str) else 7})
            assert isinstance(refused, Problem)
            assert refused.kind is Kind.INVALID_ARGUMENTS
