"""Let models use the application of a WSGI framework, such as Flask, by its OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack, cast

from a2wsgi import WSGIMiddleware

from toolwire.client.transport.in_process import Asgi, takes_arguments
from toolwire.core.errors import DefinitionError

from . import asgi
from .asgi import PublishOptions
from .route_marks import x_llm
from .wires import Wires

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

__all__ = ["Wires", "publish_tools", "x_llm"]


def publish_tools(app: WSGIApplication, document: Mapping[str, Any], **options: Unpack[PublishOptions]) -> Asgi:
    """Return an ASGI application that is ``app`` with tools: serve it instead, with ``uvicorn`` or another ASGI server.

    ``document`` and ``options`` are those of ``toolwire.integrations.asgi.publish_tools``. Requests run in threads.

    Raises:
        DefinitionError: ``app`` is no WSGI application, an option is not valid, or an ``x-llm`` has an unknown member
            or a wrong value.
    """
    if not takes_arguments(app, 2):
        kind = type(app).__name__
        other = "; for ASGI there is toolwire.integrations.asgi" if takes_arguments(app, 3) else ""
        raise DefinitionError(f"publish_tools takes a WSGI application here, not {kind}{other}.")
    return asgi.publish_tools(cast("Asgi", WSGIMiddleware(cast("Any", app))), document, **options)
