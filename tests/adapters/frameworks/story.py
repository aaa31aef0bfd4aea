"""What each framework of agents does with the tools of real sites. A program beside this file runs it with its SDK.

The sites are in JSON on standard input; the outcome of each part of the story is printed as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolwire import Question, connect, connect_sync
from toolwire.core.resources import ResultLimits

Calls = list[tuple[str, dict[str, Any]]]
"""Calls of one turn of the model, by the names of tools."""
Decide = Callable[[str], bool]
"""The user of a framework: gets the text that is asked, and allows the call or not."""


@dataclass
class Outcome:
    """What a conversation came to: what the model read of each call, what it was told of tools, what was asked."""

    read: list[str] = field(default_factory=list)
    declared: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    images: int = 0


class Converse(Protocol):
    """Lets an agent of the framework play ``turns`` of a model with the tools of ``remote``, and then end."""

    async def __call__(self, remote: Any, turns: list[Calls], decide: Decide | None, /) -> Outcome:
        """Return the outcome. With ``decide``, calls that need approval are left to the framework."""
        ...


def tell(converse: Converse, *, deferral: Callable[[], Any] | None, is_sync: bool = False) -> None:
    """Run the story and print its outcomes. ``deferral`` makes what ``connect`` gets as ``approve``; None without one.

    ``converse`` is given the deferral as an attribute ``deferral`` of the connection's own name in ``Told``.
    """
    sites = json.load(sys.stdin)
    outcomes: dict[str, Any] = {}
    for name, part in _list_parts(sites, deferral is not None).items():
        try:
            outcomes[name] = asyncio.run(asyncio.wait_for(part(_WaitingChanges(converse, deferral, is_sync)), 20))
        except Exception:  # noqa: BLE001 - the test that reads it says what it was
            outcomes[name] = {"failed": traceback.format_exc()}
    json.dump(outcomes, sys.stdout)


@dataclass
class _WaitingChanges:
    converse: Converse
    deferral: Callable[[], Any] | None
    is_sync: bool

    async def play(self, url: str, *turns: Calls, decide: Decide | None = None, **options: Any) -> Any:
        if decide is not None and self.deferral is not None:
            options["approve"] = Current.deferral = self.deferral()
        else:
            Current.deferral = Current.policy = None
        if self.is_sync:
            with connect_sync(url, **options) as blocking:
                outcome = await self.converse(blocking, list(turns), decide)
        else:
            async with connect(url, **options) as remote:
                outcome = await self.converse(remote, list(turns), decide)
        return vars(outcome)


class Current:
    """The deferral of the part of the story that runs now, or None."""

    deferral: Any = None
    policy: Any = None


def _list_parts(sites: dict[str, str], has_deferral: bool) -> dict[str, Callable[[_WaitingChanges], Awaitable[Any]]]:
    site = sites["site"]

    def erase(name: str) -> Calls:
        return [("erase", {"name": name})]

    def decide_by(*answers: bool) -> Decide:
        left = list(answers)
        return lambda _: left.pop(0) if left else False

    def allow(_: Question) -> bool:
        return True

    def refuse(_: Question) -> bool:
        return False

    parts: dict[str, Callable[[_WaitingChanges], Awaitable[Any]]] = {
        "look": lambda told: told.play(site, [("look", {})]),
        "arguments": lambda told: told.play(site, [("add", {"page_size": 2, "other": {"inner": [1, 2]}})]),
        "cut": lambda told: told.play(site, [("count", {})], caps=ResultLimits(characters=60)),
        "draw": lambda told: told.play(site, [("draw", {})]),
        "fail": lambda told: told.play(site, [("fail", {})]),
        "wrong": lambda told: told.play(site, [("add", {"page_size": "many"})]),
        "nobody": lambda told: told.play(site, erase("nobody")),
        "refused": lambda told: told.play(site, erase("refused"), approve=refuse),
        "allowed": lambda told: told.play(site, erase("allowed"), approve=allow),
        "again": lambda told: told.play(site, erase("again"), erase("again"), approve=allow),
    }
    for wire in ("otc", "opentool", "mcp"):
        bank, pay = sites[f"bank {wire}"], [("wire_money", {"amount": 5})]
        parts[f"bank {wire}"] = lambda told, bank=bank, wire=wire, pay=pay: told.play(bank, pay, protocol=wire)  # type: ignore[misc]  # values of this turn
    if has_deferral:
        deferred: dict[str, Callable[[_WaitingChanges], Awaitable[Any]]] = {
            "deferred yes": lambda told: told.play(site, erase("deferred yes"), decide=decide_by(True)),
            "deferred no": lambda told: told.play(site, erase("deferred no"), decide=decide_by(False)),
            "deferred both": lambda told: told.play(
                site, erase("deferred both") * 2, decide=decide_by(True, False, False)
            ),
            "deferred none": lambda told: told.play(site, [("look", {})], decide=decide_by()),
            "deferred later": lambda told: told.play(
                site, erase("deferred later"), erase("deferred later"), decide=decide_by(True, False)
            ),
            "deferred confirm": lambda told: told.play(
                sites["confirming"], erase("deferred confirm"), erase("deferred confirm"), decide=decide_by(True, True)
            ),
        }
        for wire in ("otc", "opentool", "mcp"):
            name = f"deferred {wire}"
            deferred[name] = lambda told, name=name, wire=wire: told.play(  # type: ignore[misc]  # values of this turn
                site, erase(name), protocol=wire, decide=decide_by(True)
            )
            bank, pay = sites[f"bank {wire}"], [("wire_money", {"amount": 6})]
            deferred[f"deferred bank {wire}"] = lambda told, bank=bank, wire=wire, pay=pay: told.play(  # type: ignore[misc]  # values of this turn
                bank, pay, protocol=wire, decide=decide_by(False)
            )
        parts |= deferred
    return parts
