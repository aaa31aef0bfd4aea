"""How many calls that cost something are left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from toolwire.client.calls.budget import CostBudget
from toolwire.core.model import Cost, Tool

PAID, FREE, UNKNOWN = (Tool(name="x", cost=cost) for cost in (Cost.PAID, Cost.FREE, None))


@pytest.mark.requirement("XL-073")
def test_cost_budget_counts_only_tools_declared_as_costly() -> None:
    allowance = CostBudget(1)
    assert [allowance.take_call(tool) for tool in (FREE, UNKNOWN, PAID, PAID, FREE)] == [True, True, True, False, True]
    assert [allowance.count_remaining(tool) for tool in (FREE, UNKNOWN, PAID)] == [None, None, 0]


@pytest.mark.requirement("XL-073")
def test_concurrent_threads_take_exactly_the_cost_budget() -> None:
    allowance = CostBudget(30)
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: allowance.take_call(PAID), range(50))) == 30
