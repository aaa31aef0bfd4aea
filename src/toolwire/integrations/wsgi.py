"""Let models use the application of a WSGI framework, such as Flask, by its OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack, cast

from toolwire.core.lazy_import import explain_missing_module

try:
    from a2wsgi import WSGIMiddleware
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "wsgi") from _error

from toolwire.client.transport.in_process import Asgi
from toolwire.server.options import ServerOptions

from . import asgi
from .asgi import PublishOptions
from .documents import check_app
from .route_marks import x_llm

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

    from toolwire.server.oauth import IdentifyUser

__all__ = ["ServerOptions", "identify_by_route", "publish_tools", "x_llm"]


def publish_tools(app: WSGIApplication, document: Mapping[str, Any], **options: Unpack[PublishOptions]) -> Asgi:
    """Return an ASGI application that is ``app`` plus its tools. Serve it with ``uvicorn`` or another ASGI server.

    For the parameters, see ``toolwire.integrations.asgi.publish_tools``. Requests run in threads. With ``sign_in``,
    ``environ["asgi.scope"]["state"]["caller"].name`` is the user's ID.

    Raises:
        DefinitionError: ``app`` is not a WSGI application, an option is not valid, or an ``x-llm`` contains an unknown
            field or an invalid value.
    """
    check_app(app, "WSGI")
    return asgi.publish_tools(cast("Asgi", WSGIMiddleware(cast("Any", app))), document, **options)


def identify_by_route(app: WSGIApplication, path: str) -> IdentifyUser:
    """Do the same as ``toolwire.integrations.asgi.identify_by_route``, for a WSGI application."""
    return asgi.identify_by_route(cast("Asgi", WSGIMiddleware(cast("Any", app))), path)
