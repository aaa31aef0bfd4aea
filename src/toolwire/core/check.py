"""What may stop a call: a list of checks, each of which looks at the call and says its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from .http import Request
from .model import Approval, Call, Json, Problem, Result


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked before a call: the call itself, where it goes, and why it is asked.

    ``always_allowed`` says whether the answer may cover later calls. ``reasons`` are whole sentences, safe to show.
    ``request`` is exactly what will be sent, but for the credentials, which ``credential`` names by their scheme.
    ``title`` is the site's own name for itself (untrusted). ``changes`` says how the tool differs from what was last
    approved, ``remaining`` how many calls the rate limit leaves. ``binding`` is the digest of all that was shown: an
    answer is good for that alone. ``id`` is new for each time of asking. ``places`` says of each argument where in the
    request it goes. ``secrets`` names the arguments that the person's own side marks as secrets.
    """

    # XL-049, XL-050

    call: Call
    site: str
    target: str
    approval: Approval
    always_allowed: bool = False
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


@dataclass(frozen=True, slots=True)
class Answer:
    """What the person said. ``always`` asks not to be asked again for this tool; ``reason`` is their own words.

    ``arguments`` are the person's own in place of those they were shown. ``channel`` says where they were asked.
    ``problem`` is how a call ends that is not allowed yet, because whoever answers asks for something else first.
    """

    allowed: bool
    always: bool = False
    reason: str = ""
    arguments: Mapping[str, Json] | None = None
    channel: str = ""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Allow:
    """Go on to the next check."""


@dataclass(frozen=True, slots=True)
class Deny:
    """Stop here, with this problem."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class Ask:
    """Go on only if the person says so."""

    question: Question


@dataclass(frozen=True, slots=True)
class KnownResult:
    """Stop here: this is the result, nothing needs to run."""

    result: Result


Verdict: TypeAlias = Allow | Deny | Ask | KnownResult
Check: TypeAlias = Callable[[Call], Verdict]

ALLOW = Allow()


def apply_checks(call: Call, checks: Sequence[Check]) -> Verdict:
    """Return the first verdict that is not Allow, or ``ALLOW``. The order of ``checks`` is the order of refusal."""
    for check in checks:
        verdict = check(call)
        if verdict is not ALLOW and not isinstance(verdict, Allow):
            return verdict
    return ALLOW
