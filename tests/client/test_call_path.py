"""The way of one call through the client stays short enough to be read: it is counted, not timed."""

from __future__ import annotations

import pytest

from bench.call_path import client_call


@pytest.mark.parametrize(("protocol", "calls"), [("openapi", 130), ("opentool", 82), ("otc", 80), ("mcp", 102)])
def test_a_call_without_a_question_passes_few_functions(protocol: str, calls: int) -> None:
    path = client_call(protocol, agreed=True)
    assert path.calls <= calls, "\n".join(f"{'  ' * step.depth}{step.function}  {step.file}" for step in path.steps)
