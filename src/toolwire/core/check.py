"""Define checks of a call: each returns a verdict, and the first verdict that is not ``Allow`` decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from .grant_bounds import GrantBounds
from .http import Request
from .model import Approval, Call, Json, Problem, Result


class ReceiptTerms(NamedTuple):
    """What a server wants signed about a call that the user allows: how it names the caller and the tool, and its word.

    ``definition`` is the server's digest of the tool's definition, ``expires_at`` the end of the receipt in seconds
    since 1970.
    """

    # CC-06

    principal: str
    tool: str
    definition: str
    nonce: str
    expires_at: float


class SimilarTool(NamedTuple):
    """Another tool of the same server with the same effect, which one permission may cover too.

    ``definition`` is the digest of all that decides what a call of it sends. A covered call has no other ``arguments``.
    One of ``destinations`` stays absent unless a condition is about it. ``text`` is what its server says of it, and
    ``changes`` how it differs from what was approved last.
    """

    # QF-03

    id: str
    name: str
    definition: str
    arguments: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    text: str = ""
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the user before a call: the call, its destination, and why it needs consent.

    - ``always_allowed``: whether the answer can also cover later calls. With None, it must limit them by bounds.
    - ``reasons``: why the call needs consent, in sentences that are safe to show.
    - ``request``: exactly what will be sent, without credentials.
    - ``credential``: the kind of credentials that are sent with it.
    - ``title``: the server's own name for itself (untrusted text).
    - ``changes``: how the tool differs from the definition that was last approved.
    - ``remaining``: how many calls the rate limit leaves.
    - ``binding``: the digest of everything that is shown. An answer is valid for this digest only.
    - ``id``: a new ID for each question.
    - ``places``: where in the request each argument goes.
    - ``secrets``: the arguments that the user marked as secret.
    - ``can_keep_level``: whether the answer can also set a rule for later calls of this tool.
    - ``files``: the local file behind each file argument, with its size and digest.
    - ``consent_reasons``: the reasons, if consent is all that the server asks for. An approval of exactly this call
      that showed all of them answers the server. With None, only a new answer does.
    - ``receipt``: what the server wants signed if the user allows the call, or None.
    - ``program``: the command, if the call goes to a local program.
    - ``definition``: the digest of the tool's definition, and of where and how a call is sent.
    - ``find_similar``: returns the server's other tools that an answer with ``bounds`` can cover.
    """

    # XL-049, XL-050

    call: Call
    site: str
    target: str
    approval: Approval
    always_allowed: bool | None = False
    reasons: tuple[str, ...] = ()
    request: Request | None = field(default=None, repr=False)
    connection: str = ""
    principal: str = ""
    title: str = ""
    credential: str = ""
    changes: tuple[str, ...] = ()
    remaining: int | None = None
    binding: str = ""
    id: str = ""
    secrets: frozenset[str] = frozenset()
    places: Mapping[str, str] = field(default_factory=dict, repr=False)
    can_keep_level: bool = False
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    consent_reasons: tuple[str, ...] | None = field(default=None, repr=False)
    receipt: ReceiptTerms | None = field(default=None, repr=False)
    definition: str = field(default="", repr=False)
    program: str = ""
    find_similar: Callable[[], Sequence[SimilarTool]] = field(default=tuple, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """The user's answer to a question.

    - ``always``: also allow later calls of this tool, within ``bounds`` if given.
    - ``reason``: why, in the user's own words.
    - ``arguments``: replaces the arguments that were shown.
    - ``channel``: where the user was asked.
    - ``problem``: ends the call, because the approver needs something else first.
    - ``keep_level``: the rule for later calls of this tool: "per-call" asks each time, "deny" refuses.
    - ``unseen``: no user was shown this call, because an MCP host is trusted. The answer then answers no question from
      the server.
    - ``decided_by``: who answered, if not the user of the session.
    - ``receipt``: set by the client, never by an approver.
    """

    allowed: bool
    always: bool = False
    reason: str = ""
    arguments: Mapping[str, Json] | None = None
    channel: str = ""
    problem: Problem | None = None
    keep_level: Approval | None = None
    bounds: GrantBounds | None = None
    unseen: bool = False
    decided_by: str = ""
    receipt: str = field(default="", repr=False)


@runtime_checkable
class AsksCaller(Protocol):
    """An approver of a server in front: the caller answers, by sending the call again."""

    async def ask_caller(self, question: Question, /) -> Problem | None:
        """Return what the caller has to confirm, about a call that was not accepted yet; None if that is nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Allow:
    """Continue with the next check. ``by_permission``: an earlier "always" of the user covers the call."""

    by_permission: bool = False


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse the call with ``problem``."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class Ask:
    """Continue only if the user approves."""

    question: Question


@dataclass(frozen=True, slots=True)
class KnownResult:
    """Return ``result`` without running the tool."""

    result: Result


Verdict: TypeAlias = Allow | Deny | Ask | KnownResult
Check: TypeAlias = Callable[[Call], Verdict]

ALLOW = Allow()
PERMITTED = Allow(by_permission=True)


def apply_checks(call: Call, checks: Sequence[Check]) -> Verdict:
    """Return the first verdict that is not Allow, or else ``ALLOW`` or ``PERMITTED``.

    The order of ``checks`` is the order of refusal.
    """
    allowed: Verdict = ALLOW
    for check in checks:
        verdict = check(call)
        if verdict is not ALLOW:
            if not isinstance(verdict, Allow):
                return verdict
            allowed = verdict
    return allowed
