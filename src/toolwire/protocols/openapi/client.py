"""Call an operation: build the request by the plan of the tool, send it, and read the response as a Result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from toolwire.core.codec import Flow, Peer, listen
from toolwire.core.http import Request, Response
from toolwire.core.model import NO_REQUIREMENTS, Call, Kind, Problem, Result, Tool, Value
from toolwire.core.url_origin import get_origin
from toolwire.framing.call_context import list_credentials, write_field
from toolwire.validation import refuse_undeclared

from . import accepted_calls
from .request import build_request
from .request.plan import Plan
from .response import results
from .response.results import Expected
from .tools.operations import OperationState


def send(peer: Peer, call: Call) -> Flow[Result]:
    """Send ``call`` as one request and return its result; arguments that cannot be sent are refused before.

    An operation on another origin than its document is called only if the user allowed that origin.
    """
    # D-07
    plan = _find_plan(peer, call)
    if isinstance(plan, Problem):
        return plan
    # A name that the document does not know is a mistake of the model: sent along, it would be ignored unseen.
    refused = refuse_undeclared(call.tool.name, call.arguments, None if plan.takes_more else plan.names)
    if refused is not None:
        return refused
    request = _build_request(peer, plan, call, call.call_id)
    if isinstance(request, Problem):
        return request
    # I-27, D-08: tokens and secrets are for the site itself, as its key is, and not for another origin that it names.
    if call.tool.requirements is not NO_REQUIREMENTS and plan.origin == get_origin(peer.url):
        credentials = (*request.credentials, *list_credentials(call))
        request = request._replace(headers=(*request.headers, *write_field(call)), credentials=credentials)
    expected = Expected(plan.origin, plan.responses, peer.resources, peer.result_limits, plan.write_only, plan.content)
    response: Response | Problem
    if plan.streams:
        reader = results.build_stream_reader(expected)
        response = yield from listen(request, reader.feed)
        if reader.has_begun:
            return results.read_stream_end(reader, response, expected)
    else:
        response = yield request
    if isinstance(response, Problem):
        return response
    return _read_202(response, request, plan, expected) if response.status == 202 else results.read(response, expected)


def _read_202(response: Response, request: Request, plan: Plan, expected: Expected) -> Result:
    # LC-05: the server may go on with the call, and say where its result will be.
    accepted = accepted_calls.read_accepted(response, request, plan.base)
    if accepted is not None:
        return accepted
    result, elsewhere = results.read(response, expected), accepted_calls.find_foreign_status(response, request)
    if elsewhere and isinstance(result, Value):  # it gets no question, because no credential of this site may go there
        return Value(result.value, {**(result.notes or {}), "status_elsewhere": elsewhere})
    return result


def describe_target(peer: Peer, call: Call) -> str:
    """Return the method and the complete URL of ``call``, as they will be sent."""
    # XL-049
    plan = _find_plan(peer, call)
    if isinstance(plan, Problem):
        return peer.url
    request = _build_request(peer, plan, call)
    return f"{request.method} {request.url}" if isinstance(request, Request) else build_request.describe_plan(plan)


def describe_places(peer: Peer, call: Call) -> Mapping[str, str]:
    """Return the place of each argument of ``call`` in the request, such as ``in the query``."""
    # XL-049
    plan = _find_plan(peer, call)
    return {} if isinstance(plan, Problem) else build_request.describe_places(plan, call.arguments)


def describe_plan(peer: Peer, tool: Tool) -> Mapping[str, object]:
    """Return the part of the plan of ``tool`` that decides its requests."""
    plan = peer.memo.plans.get(tool.id) if isinstance(peer.memo, OperationState) else None
    if plan is None:
        return {}
    return {each.name: getattr(plan, each.name) for each in fields(plan) if each.name not in _OTHER_FIELDS}


# Those about responses, and the origin, which the base says too.
_OTHER_FIELDS = frozenset({"responses", "streams", "write_only", "content", "origin"})


def _build_request(peer: Peer, plan: Plan, call: Call, call_id: str = "") -> Request | Problem:
    memo = peer.memo
    takes_query = isinstance(memo, OperationState) and memo.takes_query
    return build_request.build_request(
        plan, call.arguments, resources=peer.resources, call_id=call_id, takes_query=takes_query
    )


def _find_plan(peer: Peer, call: Call) -> Plan | Problem:
    memo = peer.memo
    plan = memo.plans.get(call.tool.id) if isinstance(memo, OperationState) else None
    if plan is None:
        return Problem(kind=Kind.UNKNOWN_TOOL, message=f"{peer.site or peer.url} has no operation {call.tool.name!r}.")
    there, home = plan.origin, get_origin(peer.url)
    # A document must not send credentials or arguments to another site because it says so.
    if there != home and there not in peer.origins:
        text = f"{call.tool.name} is a call to {there}, not to {home}, where its document came from: "
        text += f'connect with allow_origins=["{there}"] if you trust that one too, or with --server {there} if it has'
        text += " your account."
        details = {"reason": "origin", "sent": False, "origin": there}
        return Problem(kind=Kind.UNREACHABLE, message=text, details=details)
    return plan
