"""A call whose first request is made and not yet sent, and what is said of it when it ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from toolwire.client.transport.drivers import NO_APPROVER
from toolwire.consent import build_denial
from toolwire.core.check import Answer, Question
from toolwire.core.codec import Flow, Listen, Pause
from toolwire.core.http import Request
from toolwire.core.model import Call, Problem, Result, Tool, Value

FlowStep: TypeAlias = Request | Listen | Pause | Question


@dataclass(slots=True)
class PreparedCall:
    """A conversation that has said what it would send first, and has not sent it."""

    call: Call
    flow: Flow[Result]
    step: FlowStep

    @property
    def request(self) -> Request | None:
        """What would be sent."""
        return find_request(self.step)


def find_request(asked: FlowStep) -> Request | None:
    """Return the request in what a conversation asks for, if it is one."""
    if isinstance(asked, Listen):
        return asked.request
    return asked if isinstance(asked, Request) else None


def mark_approved(asked: FlowStep, like: Request | None = None) -> FlowStep:
    """Return ``asked`` with its request marked as one that is sent as it was shown, and to no other path.

    With ``like`` only if that one is marked so.
    """
    if like is not None and not like.approved:
        return asked
    if isinstance(asked, Listen):
        return asked._replace(request=asked.request._replace(approved=True))
    return asked._replace(approved=True) if isinstance(asked, Request) else asked


def replace_url(asked: FlowStep, url: str) -> FlowStep:
    """Return ``asked`` with ``url`` as where its request goes."""
    if isinstance(asked, Listen):
        return asked._replace(request=asked.request._replace(url=url))
    return asked._replace(url=url) if isinstance(asked, Request) else asked


def mark_edited(result: Result) -> Result:
    """Return ``result`` with the word that the user changed the arguments. [XL-051]"""
    if isinstance(result, Value):
        return Value(result.value, {**(result.notes or {}), "arguments_changed_by_user": True})
    return replace(result, details={**result.details, "arguments_changed_by_user": True})


def build_refusal(tool: Tool, answer: Answer) -> Problem:
    """Return the result of a call that the user did not allow, or that nobody could be asked about."""
    if answer is NO_APPROVER and tool.claimed_safe:
        return build_denial(
            f"{tool.name} needs approval and no approver is configured: only its site says that it just reads. "
            "Connect with agree=... to let such tools run, or with approve=... to be asked."
        )
    if answer is NO_APPROVER:
        return build_denial(
            f"{tool.name} needs approval and no approver is configured: connect with approve=... to be asked."
        )
    if answer.reason:
        return build_denial(f"{tool.name} was not called: {answer.reason.rstrip('.')}.", reason=answer.reason)
    return build_denial(f"{tool.name} was not called: it was not allowed.")
