"""Read and write the ``x-llm`` object: what a site declares about consent, cost and use of a tool.

Rules:
- Reading fails closed, member by member: one bad member never changes the meaning of another.
- An unknown member is ignored; a missing one means the default.
"""
# XL-035, XL-032, XL-037: the rules above.

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from toolwire.core.condition import read_conditions, write_conditions
from toolwire.core.model import Approval, Condition, Cost, Json, RateLimit, Tool

from .question_template import read_template

HINTS_KEY: Final = "x-llm"
"""The key in ``Tool.hints`` of the ``x-llm`` members that ``Tool`` has no field for."""
# XL-037

DEFAULT_LIMIT = RateLimit(max=60, window="1m")
_KNOWN: Final = frozenset(
    (
        "enabled",
        "approval",
        "approvalWhen",
        "question",
        "blanketApprovalAllowed",
        "destructive",
        "rateLimit",
        "hint",
        "costIndicator",
        "idempotent",
        "long",
        "readOnly",
    )
)
_OTHERS: Final[Mapping[str, Json]] = MappingProxyType({})


class Policy(NamedTuple):
    """What an ``x-llm`` object says of one tool; ``approval`` None means that it inherits the site's.

    ``extra_members`` are the other members: ``result``, ``next``, ``idempotencyKey``, and unknown ones.
    """

    exposed: bool = True
    approval: Approval | None = None
    ask_when: tuple[Condition, ...] = ()
    question: str = ""
    blanket_allowed: bool | None = False
    destructive: bool = False
    rate_limit: RateLimit | None = None
    hint: str = ""
    cost: Cost | None = None
    idempotent: bool = False
    long: bool = False
    extra_members: Mapping[str, Json] = _OTHERS

    def list_tool_members(self) -> dict[str, Any]:
        """Return the members of a Tool that this policy decides."""
        members = self._asdict()
        del members["exposed"], members["extra_members"]
        return members

    def build_hints(self) -> dict[str, Any]:
        """Return ``extra_members`` as it stands among the hints of a Tool."""
        return {HINTS_KEY: dict(self.extra_members)} if self.extra_members else {}


HIDDEN_POLICY = Policy(exposed=False, approval=Approval.PER_CALL)
SILENT_POLICY = Policy(blanket_allowed=None)
"""What a server declares that does not use ``x-llm`` at all."""
# QF-03


def write(tool: Tool) -> dict[str, Json]:
    """Return the ``x-llm`` object that says what ``tool`` declares; what is at its default is left out."""
    # XL-031
    data: dict[str, Json] = {"enabled": True}
    if tool.approval is not None:
        data["approval"] = "auto" if tool.approval is Approval.AUTO else "per-call"
    if tool.ask_when:
        data["approvalWhen"] = write_conditions(tool.ask_when)
    if tool.question:
        data["question"] = tool.question
    flags = {
        "blanketApprovalAllowed": tool.blanket_allowed,
        "destructive": tool.destructive,
        "idempotent": tool.idempotent,
        "long": tool.long,
    }
    data |= {name: True for name, is_set in flags.items() if is_set}
    if tool.rate_limit is not None:
        data["rateLimit"] = {"max": tool.rate_limit.max, "window": tool.rate_limit.window}
    if tool.hint:
        data["hint"] = tool.hint
    if tool.cost is not None:
        data["costIndicator"] = tool.cost.value
    return data | collect_extra_members(tool)


def collect_extra_members(tool: Tool) -> dict[str, Json]:
    """Return the ``x-llm`` members of ``tool`` that ``Tool`` has no field for, from any protocol."""
    # XL-037
    found: dict[str, Json] = {}
    for key, facts in tool.hints.items():
        if not isinstance(facts, Mapping):
            continue
        hints = facts if key == HINTS_KEY else facts.get(HINTS_KEY)
        if isinstance(hints, Mapping):
            found |= {name: value for name, value in hints.items() if name not in _KNOWN}
        if key != HINTS_KEY and isinstance(facts.get("next"), list):
            found["next"] = facts["next"]
    return found


def read(data: Json) -> Policy:
    """Return the policy of an ``x-llm`` object, or of the shorthand ``true`` or ``false``."""
    # XL-035, XL-036
    if data is True:
        return Policy()
    if not isinstance(data, dict):
        return HIDDEN_POLICY
    approval, blanket = _read_consent(data)
    conditions = read_conditions(data.get("approvalWhen", []))
    if conditions is None:  # CC-01: what cannot be read means ask
        approval, blanket = Approval.PER_CALL, False
    return Policy(
        exposed=data.get("enabled", True) is True,
        approval=approval,
        ask_when=conditions or (),
        question=read_template(data.get("question")),
        blanket_allowed=blanket,
        destructive=data.get("destructive", False) is not False,
        rate_limit=_read_rate_limit(data),
        hint=hint if isinstance(hint := data.get("hint", ""), str) else "",
        cost=_read_cost(data),
        idempotent=data.get("idempotent") is True,
        long=data.get("long") is True,
        extra_members={name: value for name, value in data.items() if name not in _KNOWN} or _OTHERS,
    )


def read_approval(text: Json) -> Approval:
    """Return a site's ``defaultApproval``; what is missing or unknown is per-call."""
    # XL-027
    return Approval.AUTO if text == "auto" else Approval.PER_CALL


def _read_consent(data: dict[str, Json]) -> tuple[Approval | None, bool]:
    blanket = data.get("blanketApprovalAllowed") is True
    if "approval" not in data:
        return None, blanket
    match data["approval"]:
        case "auto":
            return Approval.AUTO, blanket
        case "per-call":
            return Approval.PER_CALL, blanket
        case _:
            return Approval.PER_CALL, False


def _read_rate_limit(data: dict[str, Json]) -> RateLimit | None:
    if "rateLimit" not in data:
        return None
    try:
        match data["rateLimit"]:
            case {"max": int() | float() as most, "window": str(window)}:
                return RateLimit(max=_convert_whole(most), window=window)
            case int() | float() as most:
                return RateLimit(max=_convert_whole(most), window="1m")
            case _:
                return DEFAULT_LIMIT
    except ValueError:
        return DEFAULT_LIMIT


def _convert_whole(number: float) -> int:
    """Return a whole number that may be written with a point; another one fits no limit."""
    return int(number) if number == number // 1 and not isinstance(number, bool) else 0


def _read_cost(data: dict[str, Json]) -> Cost | None:
    if "costIndicator" not in data:
        return None
    value = data["costIndicator"]
    return Cost(value) if isinstance(value, str) and value in set(Cost) else Cost.PAID
