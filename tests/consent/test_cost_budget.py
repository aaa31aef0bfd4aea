"""How many calls that cost something are left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from toolwire.consent.cost_budget import CostBudget
from toolwire.core.model import Cost, Tool

PAID, FREE, UNKNOWN = (Tool(name="x", cost=cost) for cost in (Cost.PAID, Cost.FREE, None))


@pytest.mark.requirement("XL-073")
def test_only_what_the_site_says_costs_something_is_counted() -> None:
    allowance = CostBudget(1)
    assert [allowance.take_call(tool) for tool in (FREE, UNKNOWN, PAID, PAID, FREE)] == [True, True, True, False, True]
    assert [allowance.count_remaining(tool) for tool in (FREE, UNKNOWN, PAID)] == [None, None, 0]


@pytest.mark.requirement("XL-073")
def test_threads_together_take_exactly_as_many_as_there_are() -> None:
    allowance = CostBudget(30)
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: allowance.take_call(PAID), range(50))) == 30
