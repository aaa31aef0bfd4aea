"""Speak OpenTool: a JSON document of functions, called by JSON-RPC over HTTP under ``/opentool``."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from toolwire.core.codec import Codec, LongCallMethods
from toolwire.core.lazy_import import import_lazily

from .server import STRICT as STRICT_FORM
from .server import build_routes, refuse

if TYPE_CHECKING:
    from toolwire.framing.calls_resource import cancel_beside, list_beside, read_beside

    from .client import find, send, target
else:
    resource = "toolwire.framing.calls_resource"
    read_beside, cancel_beside, list_beside = import_lazily(resource, "read_beside", "cancel_beside", "list_beside")
    find, send, target = import_lazily(f"{__name__}.client", "find", "send", "target")

CODEC = Codec(
    name="opentool",
    title="OpenTool 1.1.0",
    routes=build_routes,
    refuse=refuse,
    find=find,
    send=send,
    long_calls=LongCallMethods(read_beside, cancel_beside, list_beside),
    target=target,
)

STRICT = replace(CODEC, routes=partial(build_routes, form=STRICT_FORM), refuse=partial(refuse, form=STRICT_FORM))
"""OpenTool as JSON-RPC has it: a result or an error, never both. Its Dart client cannot read such an error. [A-12]"""
