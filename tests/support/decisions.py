"""A decision about a call, as it is stored."""

from __future__ import annotations

from toolwire.consent.decision_record import Decision

SHOP = "https://shop.example"


def build_decision(number: int = 0, **changes: str) -> Decision:
    given = {"tool": "Shop.order@1.0.0", "site": SHOP, "principal": "me", "decision": "allowed", **changes}
    return Decision(at=1_795_500_000.0 + number, connection="shop", binding="ab" * 32, channel="page", **given)
