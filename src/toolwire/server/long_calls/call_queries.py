"""Answer requests about long calls: status, list, cancellation, answer, or a stream of changes.

Rules:
- A caller who may not call a tool cannot see its calls, because another app of the same user could have made them.
"""
# LC-02, D-09

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from toolwire.core.call_status import CallPage, CallStatus
from toolwire.core.codec import CallAction, CallQuery
from toolwire.core.http import EVENT_HEADERS
from toolwire.core.model import ANONYMOUS, Kind, Problem
from toolwire.framing import sse
from toolwire.server.http.exchange import Exchange, Scope
from toolwire.server.http.messages import send_response
from toolwire.server.http.response_stream import (
    CHECK_S,
    KEEP_ALIVE_S,
    MAX_STREAM_S,
    REVOKED,
    IsStillAuthorized,
    send_until_disconnect,
)

from .long_calls import LongCalls

_STREAM_HEADERS: Final = [*EVENT_HEADERS, (b"vary", b"accept")]
_NO_LIST: Final = Problem(
    kind=Kind.FORBIDDEN,
    message="This server cannot identify its callers, so it lists no calls. Read a call by its ID.",
)


JudgeTool: TypeAlias = Callable[[str], Problem | None]
"""Returns why a caller may not call the tool with this ID, or None."""


async def find_refusal(query: CallQuery, principal: str, calls: LongCalls, judge: JudgeTool) -> Problem | None:
    """Return why the principal's ``query`` about one call is refused, or None. ``judge`` decides by the call's tool."""
    status = None if query.action is CallAction.LIST else await calls.read(principal, query.call_id)
    return judge(status.tool) if isinstance(status, CallStatus) else None


async def answer_query(
    scope: Scope,
    exchange: Exchange,
    query: CallQuery,
    principal: str,
    calls: LongCalls,
    is_still_authorized: IsStillAuthorized | None = None,
    *,
    judge: JudgeTool | None = None,
) -> None:
    """Send the response to ``query`` of ``principal``. A stream ends when ``is_still_authorized`` returns False.

    A list does not contain calls of tools that ``judge`` refuses.
    """
    if query.frame is None:
        exchange.cancel_on_disconnect()
        try:
            outcome = await find_outcome(query, principal, calls)
            if query.wait_s and is_still_authorized is not None and not await is_still_authorized():
                outcome = REVOKED  # D-38: it may have waited for long
            if judge is not None and isinstance(outcome, CallPage):
                outcome = outcome._replace(calls=tuple(one for one in outcome.calls if judge(one.tool) is None))
        except asyncio.CancelledError:
            if not exchange.is_disconnected():
                raise
            return
        finally:
            exchange.ignore_disconnect()
        await send_response(scope, exchange, query.reply(outcome))
        return
    sending = _send_changes(scope, exchange, query, principal, calls, is_still_authorized)
    await send_until_disconnect(exchange, sending)


async def find_outcome(query: CallQuery, principal: str, calls: LongCalls) -> CallStatus | CallPage | Problem:
    """Return the outcome of the principal's ``query``."""
    match query.action:
        case CallAction.READ:
            return await calls.read(principal, query.call_id, query.wait_s, awaits_consent=query.awaits_consent)
        case CallAction.CANCEL:
            return await calls.cancel(principal, query.call_id)
        case CallAction.ANSWER:
            return await calls.answer(principal, query.call_id, query.answers)
        case CallAction.LIST:
            if principal == ANONYMOUS.principal:
                return _NO_LIST
            return await calls.list_calls(principal, query.limit, query.cursor)


async def _send_changes(
    scope: Scope,
    exchange: Exchange,
    query: CallQuery,
    principal: str,
    calls: LongCalls,
    is_still_authorized: IsStillAuthorized | None,
) -> None:
    """Send a call's status and each change of it, until the call is over or an hour has passed."""
    loop, send = asyncio.get_running_loop(), exchange.send
    checked = loop.time()
    until, frame = checked + MAX_STREAM_S, query.frame
    changes = calls.watch(principal, query.call_id)
    is_open = False
    following = asyncio.ensure_future(anext(changes, None))
    try:
        while frame is not None:
            done, _ = await asyncio.wait({following}, timeout=KEEP_ALIVE_S if is_still_authorized is None else CHECK_S)
            if is_open and is_still_authorized is not None and loop.time() - checked >= CHECK_S:
                checked = loop.time()
                if not await is_still_authorized():  # D-38: a caller who has lost access gets no result
                    break
            if not done:
                await send({"type": "http.response.body", "body": sse.COMMENT, "more_body": True})
                continue
            outcome = following.result()
            if not is_open:
                if not isinstance(outcome, CallStatus):
                    await send_response(scope, exchange, query.reply(outcome or _NO_LIST))
                    return
                is_open = True
                await send({"type": "http.response.start", "status": 200, "headers": list(_STREAM_HEADERS)})
            if outcome is None or loop.time() >= until:
                break
            await send({"type": "http.response.body", "body": frame(outcome), "more_body": True})
            following = asyncio.ensure_future(anext(changes, None))
        await send({"type": "http.response.body", "body": b""})
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await changes.aclose()
