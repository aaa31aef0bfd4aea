"""A site lists tools with a million properties: reading them takes a few steps for each one, over each protocol."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from tests.client import conftest
from tests.support.live_bombs import TOOLS, BombSite
from toolwire import Session, connect_sync
from toolwire.core.selection import Selection

listen, encode_response = conftest.listen, conftest.encode_response  # fixtures
PROPERTIES: Final = 1_000_000
STEPS: Final = 5
"""Python functions that may be called for each property: one makes its object, three remove null members."""


@contextmanager
def count_calls() -> Iterator[list[int]]:
    """Count the calls of functions of toolwire, in this thread and in those that begin meanwhile."""
    counted = [0]

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "toolwire" in frame.f_code.co_filename:
            counted[0] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield counted
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.mark.requirement("D-17")
@pytest.mark.parametrize("wire", ["openapi", "opentool", "otc", "mcp"])
def test_reading_very_many_properties_takes_few_steps_for_each(
    wire: str, listen: Callable[..., Any], encode_response: Callable[..., bytes]
) -> None:
    each = PROPERTIES // TOOLS // 2  # a tool has them in its input and in its output
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(each)}}
    site = BombSite(wire, schema, listen, encode_response)
    protocol: Any = wire
    with (
        count_calls() as counted,
        connect_sync(
            site.url, protocol=protocol, session=Session(), agree=lambda _: True, selection=Selection(include="all")
        ) as remote,
    ):
        shown = [tool.description for tool in remote.tools]
        text = "\n".join(remote.findings())
    assert PROPERTIES // 2 < counted[0] < STEPS * PROPERTIES, counted
    if wire == "openapi":  # such a schema is cut, and the operation can be called
        assert len(shown) == TOOLS
    else:
        assert (shown, text.count("its definition has more than 200,000 parts")) == ([], TOOLS)
