"""Serve a toolkit until the program ends: what ``Toolkit.run`` does."""
# FU-56

from __future__ import annotations

from typing import Any, Final

from toolwire.core.errors import DefinitionError
from toolwire.define import Toolkit

from .build import asgi

_HTTP: Final = ("http", "streamable-http")


def run_toolkit(kit: Toolkit, transport: str, host: str, port: int, options: dict[str, Any]) -> None:
    """Serve ``kit`` on standard input and output, or over HTTP at ``host`` and ``port``; return when that ends.

    ``options`` are those of ``asgi``.

    Raises:
        DefinitionError: there is no such transport, or an option cannot be used.
    """
    if transport != "stdio" and transport not in _HTTP:
        raise DefinitionError(f'Unknown transport {transport!r}. Write "stdio" or "http".')
    app = asgi(kit, **options)
    if transport == "stdio":
        from .stdio import run_stdio  # only for this transport

        run_stdio(app)
        return
    from .http.process import ListenSettings, serve  # loads uvicorn

    serve(app, ListenSettings(host=host, port=port))
