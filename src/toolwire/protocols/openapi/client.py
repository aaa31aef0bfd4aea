"""Calling an operation: the call by its plan, sent, and what came back as a Result."""

from __future__ import annotations

from toolwire.core.codec import Flow, Peer, fetch
from toolwire.core.http import Request
from toolwire.core.model import Call, Kind, Problem, Result

from . import requests, results
from .operations import Memo
from .requests import Plan


def send(peer: Peer, call: Call) -> Flow[Result]:
    """Return how ``call`` ended: one request, and nothing is sent where the arguments have no place in it."""
    plan = _plan(peer, call)
    request = plan if isinstance(plan, Problem) else requests.write(plan, call.arguments)
    if isinstance(request, Problem):
        return request
    response = yield from fetch(request)
    return response if isinstance(response, Problem) else results.read(response)


def target(peer: Peer, call: Call) -> str:
    """Return method and whole URL of ``call``, as they will be sent. [XL-049]"""
    plan = _plan(peer, call)
    if isinstance(plan, Problem):
        return peer.url
    request = requests.write(plan, call.arguments)
    return f"{request.method} {request.url}" if isinstance(request, Request) else requests.shown(plan)


def _plan(peer: Peer, call: Call) -> Plan | Problem:
    memo = peer.memo
    plan = memo.plans.get(call.tool.name) if isinstance(memo, Memo) else None
    if plan is None:
        return Problem(kind=Kind.UNKNOWN_TOOL, message=f"{peer.site or peer.url} has no operation {call.tool.name!r}.")
    return plan
