"""Speak the Model Context Protocol over streamable HTTP: no sessions, one JSON response for each POST."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from toolwire.core.codec import Codec, FeatureMethods, LongCallMethods
from toolwire.core.lazy_import import import_lazily

from .server import build_routes, refuse

if TYPE_CHECKING:
    from .card_client import find_listed
    from .change_listener import asks_while_listening, listen_for_changes
    from .client import (
        cancel,
        confirm,
        describe_places,
        describe_target,
        end_session,
        find,
        find_by_post,
        find_named,
        reuse_session,
        send,
    )
    from .feature_client import load, read
    from .task_client import cancel as cancel_task
    from .task_client import list_calls
    from .task_client import read as read_task
else:
    names = (
        "cancel",
        "confirm",
        "end_session",
        "find",
        "find_by_post",
        "find_named",
        "describe_places",
        "send",
        "describe_target",
    )
    cancel, confirm, end_session, find, find_by_post, find_named, describe_places, send, describe_target = (
        import_lazily(f"{__name__}.client", *names)
    )
    (reuse_session,) = import_lazily(f"{__name__}.client", "reuse_session")
    (find_listed,) = import_lazily(f"{__name__}.card_client", "find_listed")
    load, read = import_lazily(f"{__name__}.feature_client", "load", "read")
    read_task, cancel_task, list_calls = import_lazily(f"{__name__}.task_client", "read", "cancel", "list_calls")
    names = ("asks_while_listening", "listen_for_changes")
    asks_while_listening, listen_for_changes = import_lazily(f"{__name__}.change_listener", *names)

_CODEC = Codec(
    name="mcp",
    title="Model Context Protocol",
    routes=build_routes,
    refuse=refuse,
    find=find,
    find_explicit=find_named,
    find_by_post=find_by_post,
    find_listed=find_listed,
    send=send,
    target=describe_target,
    places=describe_places,
    confirm=confirm,
    cancel=cancel,
    end_session=end_session,
    reuse_session=reuse_session,
    features=FeatureMethods(load, read),
    long_calls=LongCallMethods(read_task, cancel_task, list_calls),
    listen_for_changes=listen_for_changes,
    asks_while_listening=asks_while_listening,
)

CODEC = replace(
    _CODEC,
    interactive=replace(
        _CODEC,
        find=partial(find, can_ask=True),
        find_explicit=partial(find_named, can_ask=True),
        find_by_post=partial(find_by_post, can_ask=True),
        find_listed=partial(find_listed, can_ask=True),
    ),
)
