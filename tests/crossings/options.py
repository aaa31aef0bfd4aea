"""Which options each server of the matrix has: those that its deployment and its callers need, and some others."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from tests.crossings.covering import Row, read_matrix

MATRIX = read_matrix()
SETS_EACH = 3
NEED_KEYS = frozenset({"private", "api-key"})
NOT_IN_A_FILE = frozenset({"api-key"})
"""A key is never in the file of a gateway."""
CALLERS: Mapping[str, Literal["nobody", "keys", "tokens", "people", "accounts"]] = {
    "anonymous": "nobody",
    "key": "keys",
    "JWT": "keys",
    "our OAuth": "tokens",
    "user at the gateway": "people",
    "own account at the upstream": "accounts",
}
"""Whom a server has to know for each caller."""


class Flavour(NamedTuple):
    """How one server of a deployment differs from another: whom it knows, and whether it wants receipts.

    ``callers`` are nobody; keys and tokens of another issuer; tokens of our own one; people who sign in to the gateway
    itself; or such people with accounts of their own at the upstream. A caller can add only ten questions a minute to
    the inbox of one server: ``number`` is that of a further one.
    """

    callers: Literal["nobody", "keys", "tokens", "people", "accounts"]
    wants_receipts: bool
    number: int = 0


def find_flavour(row: Row, number: int = 0) -> Flavour:
    """Return what the server of a row has to be."""
    return Flavour(CALLERS[row["caller"]], row["consent"] == "receipt", number)


def choose_extras(deployment: str, flavour: Flavour) -> dict[str, Any]:
    """Return further options of one server, always the same, with their values."""
    if deployment == "stdio":
        return {}
    first = int.from_bytes(sha256(f"{deployment} {flavour}".encode()).digest()[:4])
    chosen: dict[str, Any] = {}
    for number in range(first, first + SETS_EACH):
        chosen |= MATRIX.extras[number % len(MATRIX.extras)]
    left_out = NEED_KEYS if flavour.callers != "keys" else frozenset()
    if "gateway" in deployment:
        left_out |= NOT_IN_A_FILE
    return {name: value for name, value in chosen.items() if name not in left_out}


def list_needed(deployment: str, flavour: Flavour) -> set[str]:
    """Return the names of the options that a server has for its deployment, its callers and their consent."""
    needed = {"state"} | ({"receipts", "receipt-keys"} if flavour.wants_receipts else {"consent", "ask-wait"})
    if flavour.wants_receipts and deployment.startswith(("behind", "below", "gateway", "two nodes")):
        needed.add("receipt-audience")
    return needed
