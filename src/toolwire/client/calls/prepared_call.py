"""A call whose first request is made and not yet sent, and what is said of it when it ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from toolwire.client.transport.drivers import UNASKED
from toolwire.consent import build_denial
from toolwire.core.check import Answer, Question
from toolwire.core.codec import Flow, Listen, Pause
from toolwire.core.http import Request
from toolwire.core.model import Call, Problem, Result, Tool, Value

Asked: TypeAlias = Request | Listen | Pause | Question


@dataclass(slots=True)
class PreparedCall:
    """A conversation that has said what it would send first, and has not sent it."""

    call: Call
    flow: Flow[Result]
    asked: Asked

    @property
    def request(self) -> Request | None:
        """What would be sent."""
        return requested(self.asked)


def requested(asked: Asked) -> Request | None:
    """Return the request in what a conversation asks for, if it is one."""
    if isinstance(asked, Listen):
        return asked.request
    return asked if isinstance(asked, Request) else None


def mark_approved(asked: Asked, like: Request | None = None) -> Asked:
    """Return ``asked`` with its request marked as one that is sent as it was shown, and to no other path.

    With ``like`` only if that one is marked so.
    """
    if like is not None and not like.approved:
        return asked
    if isinstance(asked, Listen):
        return asked._replace(request=asked.request._replace(approved=True))
    return asked._replace(approved=True) if isinstance(asked, Request) else asked


def sent_to(asked: Asked, url: str) -> Asked:
    """Return ``asked`` with ``url`` as where its request goes."""
    if isinstance(asked, Listen):
        return asked._replace(request=asked.request._replace(url=url))
    return asked._replace(url=url) if isinstance(asked, Request) else asked


def edited(result: Result) -> Result:
    """Return ``result`` with the word that the person changed the arguments. [XL-051]"""
    if isinstance(result, Value):
        return Value(result.value, {**(result.notes or {}), "arguments_changed_by_user": True})
    return replace(result, details={**result.details, "arguments_changed_by_user": True})


def refused(tool: Tool, answer: Answer) -> Problem:
    """Return the result of a call that the person did not allow, or that nobody could be asked about."""
    if answer is UNASKED and tool.claimed_safe:
        return build_denial(
            f"{tool.name} needs approval and no approver is configured: only its site says that it just reads. "
            "Connect with agree=... to let such tools run, or with approve=... to be asked."
        )
    if answer is UNASKED:
        return build_denial(
            f"{tool.name} needs approval and no approver is configured: connect with approve=... to be asked."
        )
    if answer.reason:
        return build_denial(f"{tool.name} was not called: {answer.reason.rstrip('.')}.", reason=answer.reason)
    return build_denial(f"{tool.name} was not called: it was not allowed.")
