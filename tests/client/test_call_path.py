"""The way of one call through the client stays short enough to be read: it is counted, not timed."""

from __future__ import annotations

import pytest

from bench.call_path import client_call, record_path
from toolwire import Toolkit, asgi, connect_sync
from toolwire.testing.loopback import background


@pytest.mark.parametrize(("protocol", "calls"), [("openapi", 119), ("opentool", 93), ("otc", 91), ("mcp", 123)])
def test_a_call_without_a_question_passes_few_functions(protocol: str, calls: int) -> None:
    path = client_call(protocol, agreed=True)
    assert path.calls <= calls, "\n".join(f"{'  ' * step.depth}{step.function}  {step.file}" for step in path.steps)


def test_one_connect_reads_the_policy_of_a_document_once() -> None:
    kit = Toolkit("Shop", description="A shop.")

    @kit.tool(safe=True, approval="auto")
    def find() -> str:
        """Find."""
        return "x"

    with (
        background(asgi(kit)) as url,
        record_path() as path,
        connect_sync(f"{url}/openapi.json", protocol="openapi") as remote,
    ):
        assert [tool.name for tool in remote.tools] == ["find"]
    assert [step.function for step in path.steps].count("read_site") == 1
