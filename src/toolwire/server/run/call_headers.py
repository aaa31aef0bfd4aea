"""Read what the head of a request says about its call: trace, confirmation, key, receipt, and how long it may wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from toolwire.core.codec import RECEIPT_FIELD
from toolwire.core.http import Request, Response
from toolwire.core.model import Call, Kind, Result, Value
from toolwire.limits import RulesByCaller
from toolwire.server.asking.confirmation import CONFIRMATION, is_declined
from toolwire.server.asking.receipts import STDIO
from toolwire.server.http.exchange import STDIO_EXTENSION, Scope
from toolwire.server.http.messages import split_mount_path
from toolwire.server.limits import QUESTION_WAIT_S
from toolwire.server.long_calls import calls_resource
from toolwire.telemetry.propagation import add_trace

from .idempotency import KEY_HEADER, parse_key

FindOwnHost: TypeAlias = Callable[[object, str], str]
"""Returns the host of this server that a request came to, from its socket and its ``Host`` field."""


class CallHeaders(NamedTuple):
    """What a server reads for its calls from the heads of requests.

    With ``find_own_host``, calls need receipts for the host of this server that it returns. With ``has_inbox``, users
    decide in the inbox: a call waits ``inbox_wait_s`` seconds for that, and the ``rules`` may say that a caller's user
    always decides there.
    """

    find_own_host: FindOwnHost | None = None
    has_inbox: bool = False
    inbox_wait_s: float = 0.0
    rules: RulesByCaller | None = None

    def apply(self, call: Call, fields: Mapping[bytes, bytes], scope: Scope, request: Request) -> Call:
        """Return ``call`` with what the header fields of its request say."""
        call = _apply_headers(call, fields)
        if self.find_own_host is not None:
            call = _apply_receipt(call, fields, scope, self.find_own_host)
        elif call.context.can_ask and STDIO_EXTENSION in scope.get("extensions", ()):
            call = call._replace(context=replace(call.context, host=STDIO))  # QF-03
        if self.has_inbox:
            context = call.context
            requires_inbox = self.rules is not None and self.rules.find(context.principal, context.group).inbox
            call = _choose_inbox(call, request, self.inbox_wait_s, requires_inbox=requires_inbox)
        if call.tool.long and (preference := calls_resource.read_preference(request.headers)) is not None:
            return call._replace(context=replace(call.context, wait_s=preference[0]))  # LC-02
        return call


def _apply_headers(call: Call, fields: Mapping[bytes, bytes]) -> Call:
    """Return ``call`` with trace, confirmation and key from the request head, which all protocols share."""
    # OTC-019, XL-056
    context = call.context
    if b"traceparent" in fields:
        context = add_trace(context, fields[b"traceparent"].decode("latin-1"))
    if CONFIRMATION in fields and context.input_responses is None:  # the state of a tool's question is the token there
        context = replace(context, confirmation=fields[CONFIRMATION].decode("latin-1"))
    key = parse_key(fields[KEY_HEADER]) if KEY_HEADER in fields and not call.key else call.key
    return call._replace(context=context, call_id=key or call.call_id, key=key)


def _apply_receipt(call: Call, fields: Mapping[bytes, bytes], scope: Scope, find_own_host: FindOwnHost) -> Call:
    """Return ``call`` with the receipt in its head, if it has none, and with the host of this server it came to."""
    # CC-06, AT-34
    context, field = call.context, fields.get(RECEIPT_FIELD, b"")
    named = fields.get(b"host", b"").decode("latin-1")
    is_stdio = STDIO_EXTENSION in scope.get("extensions", ())
    host = STDIO if is_stdio else find_own_host(scope.get("server"), named)
    receipt = context.receipt or field.decode("latin-1")
    return call._replace(context=replace(context, receipt=receipt, host=host))


def _choose_inbox(call: Call, request: Request, inbox_wait_s: float, *, requires_inbox: bool) -> Call:
    """Return ``call``, about which its user decides in the inbox if its client cannot ask, or wants that.

    With ``requires_inbox``, the user always decides there. ``inbox_wait_s`` is how many seconds such a call waits, if
    its request names no other time.
    """
    # GW-04
    context = call.context
    preference = calls_resource.read_preference(request.headers)
    # With respond-async, a client of long calls says how long it waits for their end.
    wait_s = preference[0] if preference is not None and preference[1] != b"respond-async" else None
    if requires_inbox:
        # What the client asked its user, or says it did, decides nothing here. The state of a tool's question is kept.
        token = context.confirmation if context.input_responses is not None else ""
        answer = context.user_answer if is_declined(call) else None
        context = replace(
            context, can_ask=False, must_confirm=True, needs_inbox=True, confirmation=token, user_answer=answer
        )
    elif wait_s is not None and not context.can_ask and not context.confirmation and not context.receipt:
        context = replace(context, must_confirm=True, needs_inbox=True)
    if not context.needs_inbox:
        return call
    if wait_s is None:  # a page that the user has not seen is told first
        wait_s = 0.0 if context.opens_pages else max(inbox_wait_s, context.inbox_wait_s)
    wait_s = min(wait_s, QUESTION_WAIT_S)
    return call._replace(context=replace(context, inbox_wait_s=0.0 if call.tool.long else wait_s))


def add_call_location(response: Response, result: Result, scope: Scope, request: Request) -> Response:
    """Return ``response`` with the address of a long call that continues, and with the preference that it meets."""
    if isinstance(result, Value):
        return calls_resource.add_applied_wait(response, request.headers)
    if result.kind is not Kind.ACCEPTED:
        return response
    root, _ = split_mount_path(scope.get("root_path") or "", "")
    return calls_resource.add_location(response, result, root, request.headers)
