"""A small shop: ``toolwire serve shop.py``."""

from typing import Annotated

from pydantic import Field

from toolwire import ToolError, Toolkit

shop = Toolkit("Shop", version="1.0.0", description="A small shop.")
shelf = {"tea": 4, "milk": 1}


@shop.tool(approval="auto")
def in_stock(item: str) -> int:
    """Say how many there are of an item.

    Args:
        item: The name of the item, such as tea.
    """
    return shelf.get(item, 0)


@shop.tool(approval="per-call")
def order(item: str, count: Annotated[int, Field(ge=1, le=10)] = 1) -> int:
    """Take something from the shelf, and say how many are left.

    Args:
        item: The name of the item, such as tea.
        count: How many.
    """
    if shelf.get(item, 0) < count:
        raise ToolError(f"There is not enough {item}.", additional_prompt_content="Ask in_stock first.")
    shelf[item] -= count
    return shelf[item]
