"""Ask the users of MCP hosts before a call of one of this server's tools that needs consent.

Rules:
- A host that shows forms is asked, even if its own rules also ask the user.
- For a host without forms, the operator chooses: trust it to ask by each tool's hints, refuse the call, or let the user
  decide in the inbox of ``toolwire approvals``.
- Clients of other protocols are not asked, because they read in a tool's definition how much consent it needs. If
  receipts are required, every caller needs one.
- Nothing is asked here about another server's tool, because its connection knows what that server and the user require.
"""
# CC-05, CC-06

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

from toolwire.core.check import Ask, Check
from toolwire.core.model import Approval, Call, Cost, Tool
from toolwire.core.toolbox import Toolbox, find_consent_handling

from .confirmation import ConfirmationQuestion, FindReasons

_log = logging.getLogger("toolwire")

HostConsent: TypeAlias = Literal["", "hints", "refuse", "inbox"]
"""What happens to a call that needs consent if its MCP client shows no forms. ``hints``: the client is trusted to ask
its user. ``refuse``: the call is refused. ``inbox``: the user decides on the inbox page or with ``toolwire approvals``.
``""`` means ``hints`` for the server's own tools and ``refuse`` for other servers' tools."""


def may_need_consent(tool: Tool) -> bool:
    """Return whether a host is asked about calls of ``tool``, for some arguments or for all."""
    is_costly = tool.cost not in (None, Cost.FREE)
    return bool(tool.ask_when) or tool.destructive or is_costly or tool.approval is not Approval.AUTO


def count_own_asking_tools(toolboxes: Iterable[Toolbox]) -> int:
    """Return how many tools need consent for which their toolbox does not ask."""
    pairs = ((tool, find_consent_handling(toolbox)) for toolbox in toolboxes for tool in toolbox.catalog().tools)
    return sum(may_need_consent(tool) and not handles_consent(tool) for tool, handles_consent in pairs)


_OTHERS: Final = {
    "refuse": "is refused",
    "inbox": "is refused until its user has decided with `toolwire approvals`",
    "hints": 'is trusted to ask its user (consent "refuse" refuses it)',
}


def describe_host_consent(number: int, consent: str, receipts: str = "") -> str:
    """Return a sentence about who asks for consent to ``number`` own tools, or ``""`` if ``number`` is 0."""
    # The log says at the start who asks, even if that is the default.
    if not number:
        return ""
    some = "1 tool needs" if number == 1 else f"{number} tools need"
    if receipts:
        return f"{some} consent. Each call runs only with a receipt of its user's decision."
    other = _OTHERS.get(consent, _OTHERS["hints"])
    return f"{some} consent. An MCP client that shows forms is asked; one that does not {other}."


class ConsentNotice(NamedTuple):
    """Logs, when the server starts, who asks about the toolbox's tools that need consent."""

    toolbox: Toolbox
    consent: str
    needs_receipts: bool

    async def begin(self) -> None:
        """Log it, if there are such tools."""
        receipts = "required" if self.needs_receipts else ""
        note = describe_host_consent(count_own_asking_tools([self.toolbox]), self.consent, receipts)
        if note:
            _log.info("%s", note)

    async def end(self) -> None:
        """Do nothing."""


def build_host_question(handles_consent: Callable[[Tool], bool], *, of_all: bool = False) -> ConfirmationQuestion:
    """Return a function that builds the question for a call that needs consent, if its MCP host can or must be asked.

    ``handles_consent`` returns whether the Toolbox itself asks for consent to a tool, as a remote server does. With
    ``of_all``, every caller on every protocol must confirm.
    """

    def ask(call: Call) -> str:
        if not (of_all or call.context.can_ask or call.context.must_confirm) or handles_consent(call.tool):
            return ""
        reasons = find_consent_reasons(call)
        return "" if reasons is None else f"{call.tool.name} needs your consent. {' '.join(reasons)}".rstrip()

    return ask


def build_reasons(required: ConfirmationQuestion | None, *, of_all: bool = False) -> FindReasons:
    """Return a function that finds the reasons for our question to a client that cannot be asked."""

    def find(call: Call) -> Sequence[str] | None:
        # A client that asks its user itself gets the reasons, so that the user is asked only once.
        if not (of_all or call.context.must_confirm) or (required is not None and required(call)):
            return None
        return find_consent_reasons(call)

    return find


def find_consent_reasons(call: Call) -> tuple[str, ...] | None:
    """Return why the tool's policy requires consent to ``call``, or None if it does not."""
    if call.tool.approval is Approval.DENY:
        return ("The server does not allow calls of this tool.",)
    verdict = _load_consent_check()(call)
    return verdict.question.reasons if isinstance(verdict, Ask) else None


def find_later(call: Call) -> bool | None:
    """Return whether an answer about ``call`` can cover later calls by the tool's policy. None: only within bounds."""
    if call.tool.approval is Approval.DENY:
        return False
    verdict = _load_consent_check()(call)
    return verdict.question.always_allowed if isinstance(verdict, Ask) else False


@cache
def _load_consent_check() -> Check:
    from toolwire.consent import build_consent_check  # most servers never ask

    return build_consent_check(site="", has_agreement=lambda _: True)
