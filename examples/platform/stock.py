"""An upstream at an address of its own: OpenAPI, with a key."""

from __future__ import annotations

from pathlib import Path

from toolwire import Toolkit

stock = Toolkit("Stock")
ORDERS = Path("orders.txt")
"""One line for each order, so that a reader can count what ran."""


@stock.tool(safe=True, approval="auto")
def count(item: str) -> int:
    """Count how many there are of an item."""
    return len(item)


@stock.tool(safe=False, approval="auto", idempotent=False)
def order(item: str) -> str:
    """Order an item."""
    with ORDERS.open("a", encoding="utf-8") as file:
        file.write(f"{item}\n")
    return f"{item} is ordered"
