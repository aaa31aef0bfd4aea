"""Notify listening clients of changed lists and resources: ``subscriptions/listen`` of 2026-07-28.

Rules:
- The first message says which notifications are granted. Each message carries the request's ID.
- Only requested notifications are sent. A resource that the client may not read is treated as one that does not exist,
  and not granted.
"""
# MC-06

from __future__ import annotations

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Reading, RemoteChanges, Subscription
from toolwire.core.http import EVENT_HEADERS, Response, get_header
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext, sse
from toolwire.framing.jsontext import get_object

from . import task_server
from .answers import AskedMethod, build_invalid, build_refusal
from .resource_subscriptions import MAX_SUBSCRIPTIONS, UPDATED, ResourceSubscriptions
from .result import write_opening
from .revision import LISTENED, NOTICES, SUBSCRIPTION_META


def open_subscription(asked: AskedMethod) -> Reading:
    """Return the stream of the changes that ``asked`` names."""
    if b"text/event-stream" not in get_header(asked.request.headers, b"accept").lower().encode():
        return build_invalid(asked, 'The answer is a stream, so the header "accept" must allow text/event-stream.')
    wanted = get_object(asked.params, "notifications")
    if "taskIds" in wanted and not task_server.declares_tasks(asked.params):
        return task_server.refuse_undeclared(asked)
    uris = wanted.get("resourceSubscriptions")
    if uris is not None and (not isinstance(uris, list) or len(uris) > MAX_SUBSCRIPTIONS):
        text = f'"resourceSubscriptions" must be an array of at most {MAX_SUBSCRIPTIONS} URIs.'
        return build_invalid(asked, text)
    granted: dict[str, Json] = {name: True for name in NOTICES if wanted.get(name) is True}
    resources = ResourceSubscriptions()
    meta: dict[str, Json] = {SUBSCRIPTION_META: jsontext.read(asked.id)}

    def write(method: str, **params: Json) -> bytes:
        message = {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": meta}}
        return sse.write("message", jsontext.write(message))

    def acknowledge(now: Catalog) -> bytes:
        notifications = granted
        if uris:
            known: list[Json] = [uri for uri in uris if resources.add(uri, now.features) is None]
            notifications = {**granted, "resourceSubscriptions": known}
        return write(LISTENED, notifications=notifications)

    def frame_updates(now: Catalog, remote: RemoteChanges) -> bytes:
        return b"".join(write(UPDATED, uri=uri) for uri in resources.find_changed(now.features, remote))

    def frame(before: Catalog, now: Catalog, remote: RemoteChanges) -> bytes:
        changed = find_changed(before, now)
        return b"".join(write(NOTICES[name]) for name in granted if name in changed or remote.has_list(name))

    def refuse(problem: Problem) -> Response:
        return build_refusal(asked.id, problem)

    end = b'"resultType":"complete","_meta":' + jsontext.write(meta) + b"}}"
    closing = sse.write("message", write_opening(asked.id) + end)
    return Subscription(EVENT_HEADERS, acknowledge, frame, closing, refuse, frame_updates if uris else None)


def find_changed(before: Catalog, now: Catalog) -> frozenset[str]:
    """Return the names in ``NOTICES`` of the lists that differ."""
    changed = {
        "toolsListChanged": before.tools != now.tools,
        "promptsListChanged": before.features.prompts != now.features.prompts,
        "resourcesListChanged": before.features.resources != now.features.resources
        or before.features.skills != now.features.skills,
    }
    return frozenset(name for name, is_changed in changed.items() if is_changed)
