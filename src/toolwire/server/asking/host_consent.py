"""Ask the users of MCP hosts before a call of an own tool that needs consent.

Rules:
- A host that shows forms is asked, even if it also asks its user by its own rules.
- A host that shows no forms is trusted to ask by the hints of each tool, or its call is refused, or its user decides in
  the inbox of ``toolwire approvals``, as the operator says.
- Other protocols are not asked: their clients read the consent that a tool needs in its definition. Where receipts are
  required, every caller needs one.
- A tool of another server is not asked about here: its connection knows what that server and the user require.
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
"""What becomes of a call that needs consent if its MCP client shows no forms: the client is trusted to ask its user by
the hints of the tool, the call is refused, or the user decides in the inbox: at its page or with ``toolwire
approvals``. ``""`` is ``hints`` for own tools and ``refuse`` for those of other servers."""


def may_need_consent(tool: Tool) -> bool:
    """Return whether a host is asked about calls of ``tool``, for some arguments or for all."""
    is_costly = tool.cost not in (None, Cost.FREE)
    return bool(tool.ask_when) or tool.destructive or is_costly or tool.approval is not Approval.AUTO


def count_own_asking_tools(toolboxes: Iterable[Toolbox]) -> int:
    """Return how many tools need consent that their toolbox does not ask for by itself."""
    pairs = ((tool, find_consent_handling(toolbox)) for toolbox in toolboxes for tool in toolbox.catalog().tools)
    return sum(may_need_consent(tool) and not handles_consent(tool) for tool, handles_consent in pairs)


_OTHERS: Final = {
    "refuse": "is refused",
    "inbox": "is refused until its user has decided with `toolwire approvals`",
    "hints": 'is trusted to ask its user (consent "refuse" refuses it)',
}


def describe_host_consent(number: int, consent: str, receipts: str = "") -> str:
    """Return who asks about ``number`` own tools that need consent, as a sentence; ``""`` if there are none."""
    # Who asks is said at the start, also where it is the default.
    if not number:
        return ""
    some = "1 tool needs" if number == 1 else f"{number} tools need"
    if receipts:
        return f"{some} consent. Each call runs only with a receipt of its user's decision."
    other = _OTHERS.get(consent, _OTHERS["hints"])
    return f"{some} consent. An MCP client that shows forms is asked; one that does not {other}."


class ConsentNotice(NamedTuple):
    """Logs who asks about the tools of ``toolbox`` that need consent when the server begins."""

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
    """Return a question for each call that needs consent, if its caller is a host of MCP that can be asked or must be.

    ``handles_consent`` returns whether the Toolbox asks for consent to a tool by itself, as a remote server does. With
    ``of_all``, every caller on every protocol must confirm.
    """

    def ask(call: Call) -> str:
        if not (of_all or call.context.can_ask or call.context.must_confirm) or handles_consent(call.tool):
            return ""
        reasons = find_consent_reasons(call)
        return "" if reasons is None else f"{call.tool.name} needs your consent. {' '.join(reasons)}".rstrip()

    return ask


def build_reasons(required: ConfirmationQuestion | None, *, of_all: bool = False) -> FindReasons:
    """Return a function that finds the reasons of a question of ours to a client that cannot be asked."""

    def find(call: Call) -> Sequence[str] | None:
        # A client that asks by itself is told the reasons, so that its user is asked once.
        if not (of_all or call.context.must_confirm) or (required is not None and required(call)):
            return None
        return find_consent_reasons(call)

    return find


def find_consent_reasons(call: Call) -> tuple[str, ...] | None:
    """Return why the policy of its tool wants ``call`` to be asked about; None if it does not."""
    if call.tool.approval is Approval.DENY:
        return ("The server does not allow calls of this tool.",)
    verdict = _load_consent_check()(call)
    return verdict.question.reasons if isinstance(verdict, Ask) else None


def find_later(call: Call) -> bool | None:
    """Return whether the policy of its tool lets an answer about ``call`` cover later calls; None: within bounds."""
    if call.tool.approval is Approval.DENY:
        return False
    verdict = _load_consent_check()(call)
    return verdict.question.always_allowed if isinstance(verdict, Ask) else False


@cache
def _load_consent_check() -> Check:
    from toolwire.consent import build_consent_check  # most servers never ask

    return build_consent_check(site="", has_agreement=lambda _: True)
