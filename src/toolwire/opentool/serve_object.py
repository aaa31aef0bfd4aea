"""Build a Toolbox and an application from an object or its class, and from a document if there is one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from toolwire.core.errors import DefinitionError
from toolwire.protocols import BUILTIN
from toolwire.protocols.opentool import CODEC, STRICT
from toolwire.server import App
from toolwire.server.build import build_server
from toolwire.server.limits import THREADS
from toolwire.server.options import ServerOptions

from .description import Given, describe, load_description
from .document_check import check_against, has_call
from .method_toolbox import MethodToolbox
from .object_toolbox import ANY, ObjectToolbox
from .wire import add_stop, build_codec

Box: TypeAlias = ObjectToolbox | MethodToolbox


def build_toolbox(target: Any, document: Given | None = None, *, version: str = "1.0.0", threads: int = THREADS) -> Box:
    """Return the Toolbox of ``target``: a Tool, an object with a method for each function, or such a class.

    ``document`` replaces the document that ``target`` loads. ``version`` is used if the tool has none. Plain functions
    run in up to ``threads`` threads.

    Raises:
        DefinitionError: ``target`` needs arguments, has nothing to call, or does not match its document. The message
            names every mismatch.
    """
    tool = _instantiate(target)
    given = document if document is not None else load_description(tool)
    if not has_call(tool) and given is None:
        text = "give it call(self, name, arguments), or a document with a function for each of its methods"
        raise DefinitionError(f"{type(tool).__name__} cannot be served: {text}.")
    faults = check_against(tool, given) if given is not None else ()
    if faults:
        raise DefinitionError("The code does not match its document.\n" + "\n".join(f"- {fault}" for fault in faults))
    description = describe(given, version=version, title=type(tool).__name__)
    kind = ObjectToolbox if has_call(tool) else MethodToolbox
    return kind(tool, description, threads=threads)


def build_app(
    box: Box, options: ServerOptions, *, admin_key: str | None = None, stop: Callable[[], None] | None = None
) -> App:
    """Return the app that serves ``box`` on every protocol, on OpenTool's as its SDKs do.

    With both ``admin_key`` and ``stop`` there is a ``/opentool/stop``. ``toolwire.asgi`` lists the errors.
    """
    any_name = box.any if isinstance(box, ObjectToolbox) else ANY
    own = build_codec(box.document, any_name, STRICT if options.strict_jsonrpc else CODEC)
    if admin_key is not None and stop is not None:
        own = add_stop(own, admin_key, stop)
    return build_server(box, options, codecs=[own if one.name == own.name else one for one in BUILTIN])


def _instantiate(target: Any) -> Any:
    if not inspect.isclass(target):
        return target
    try:
        inspect.signature(target).bind()
    except TypeError as error:
        text = f"{error}; make one, and serve that, or use main({target.__name__})"
        raise DefinitionError(f"{target.__name__} cannot be created without arguments: {text}.") from error
    return target()
