"""Sign what the user decided about a call, where its server wants a receipt.

Rules:
- Only a server that asks gets a receipt, only after the user's answer, and only if the user has made a key.
- The client states what it knows by itself: which host it called, and with which arguments. It signs for no tool of
  another name than the one that the user was shown.
"""
# CC-06

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from toolwire.core.check import ReceiptTerms
from toolwire.core.http import Request
from toolwire.core.model import Call, Kind, Problem, Tool
from toolwire.core.url_origin import get_authority, get_host

if TYPE_CHECKING:  # an extra, and few servers want receipts
    from toolwire.auth.receipt import ReceiptKey, StoredReceipt

STDIO: Final = "stdio"
"""What stands for the host of a server that is a program on standard input and output."""
MAX_VALIDITY_S: Final = 3_600.0
"""How many seconds a receipt is valid at most by the clock of the client, which may differ from the server's."""

_PROGRAM_HOST: Final = ".stdio.invalid"

FindKey = Callable[[], "ReceiptKey | None"]
"""Returns the key that signs receipts now, or None without one."""


def find_signing_refusal(find_key: FindKey | None, terms: ReceiptTerms, tool: Tool) -> Problem | None:
    """Return why a call of ``tool`` cannot get the receipt that its server wants, or None. No user is asked then."""
    if not _is_same_tool(terms.tool, tool):
        text = f"{tool.name} was not called, because its server requires a receipt for something other than this call."
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    if find_key is None or find_key() is None:
        text = (
            f"{tool.name} was not called, because its server requires a signed receipt of your decision and "
            "you have no signing key."
        )
        advice = "Create one with `toolwire approvals key`, and give its public half to the server."
        return Problem(kind=Kind.UNCONFIRMED, message=f"{text} {advice}", details={"receipt": "no_key"})
    return None


def build_unseen_refusal(tool: Tool) -> Problem:
    """Return the Problem that a call of ``tool`` has no receipt, because no user was shown it."""
    text = (
        f"{tool.name} was not called, because its server requires a receipt of a user's decision and no user was asked."
    )
    return Problem(kind=Kind.UNCONFIRMED, message=text, details={"receipt": "unseen"})


def sign_decision(
    key: ReceiptKey, call: Call, request: Request, terms: ReceiptTerms, *, now: float, shown: str
) -> StoredReceipt:
    """Return the receipt that the user allowed ``call``, which is sent as ``request``.

    ``now`` is in seconds since 1970; ``shown`` is the client's digest of what the user was shown.
    """
    from toolwire.auth.receipt import ReceiptBinding, StoredReceipt, digest_arguments  # as above

    binding = ReceiptBinding(
        audience=find_audience(request.url),
        principal=terms.principal,
        tool=terms.tool,
        definition=terms.definition,
        arguments=digest_arguments(call.arguments),
        nonce=terms.nonce,
    )
    end = min(max(terms.expires_at, 0.0), now + MAX_VALIDITY_S)
    return StoredReceipt(receipt=key.sign(binding, decided_at=now, expires_at=end, shown=shown), binding=binding)


def find_audience(url: str) -> str:
    """Return the host and port that a request to ``url`` goes to, or ``stdio`` for a program."""
    return STDIO if get_host(url).endswith(_PROGRAM_HOST) else get_authority(url)


def _is_same_tool(id_: str, tool: Tool) -> bool:
    """Return whether the id of a tool at its server, ``Toolkit.name@version``, is that of ``tool`` here."""
    # A protocol may put the name of the toolkit before that of the tool.
    name = id_.partition("@")[0].rpartition(".")[2]
    known = (one.replace("-", "_") for one in (tool.name, tool.original_name))
    return bool(name) and any(one == name or one.endswith(f"_{name}") for one in known)
