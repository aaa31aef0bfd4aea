"""A shop whose tool takes an order."""

from __future__ import annotations

from typing import Any

from toolwire.core.check import Question
from toolwire.core.http import Request
from toolwire.core.model import Approval, Call, Cost, Json, Tool


def build_order(**changes: Any) -> Question:
    """A question about an order at a shop."""
    tool = Tool(name="place_order", description="Place an order.\nMore.", cost=Cost.PAID)
    arguments: dict[str, Json] = {
        "lines": [{"sku": "tea", "qty": 2, "price": 1.5}, {"sku": "cups", "qty": 6, "price": 12}],
        "ship_to": {"street": "Main 1", "city": "Bonn"},
        "by": "2027-03-01",
        "gift": True,
        "note": "Ring twice.\n" * 12,
    }
    values: dict[str, Any] = {
        "approval": Approval.PER_CALL,
        "reasons": ("The site declares that this tool costs money.",),
        "title": "Desk",
        "credential": "bearer key",
        "remaining": 60,
        "places": dict.fromkeys(arguments, "in the body"),
        "request": Request("POST", "http://127.0.0.1:9723/api/place_order", (), b"x" * 92),
        "always_allowed": True,
        "can_keep_level": True,
        **changes,
    }
    return Question(
        Call(tool, arguments), "http://127.0.0.1:9723", "POST http://127.0.0.1:9723/api/place_order", **values
    )
