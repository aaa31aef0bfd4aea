"""Put a console before the application of a server, for its operators."""
# CO-02

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from toolwire.core.catalog import Catalog
from toolwire.core.health import UpstreamHealth
from toolwire.server.http.exchange import Exchange, Receive, Scope, Send, get_exchange
from toolwire.server.http.lifespan import begin_lifespan, end_lifespan, run_lifespan
from toolwire.server.http.messages import close_websocket
from toolwire.server.run.service import RunningCall

from .app import Console


class ServedApp(Protocol):
    """The application of a server, such as ``App``."""

    @property
    def active_calls(self) -> int:
        """The number of calls in flight."""
        ...

    def list_running(self, most: int) -> list[RunningCall]:
        """Return at most ``most`` of the calls that wait for their tools now, the oldest first; no long calls."""
        ...

    def catalog(self) -> Catalog:
        """Return what is served now."""
        ...

    def list_health(self) -> Sequence[UpstreamHealth]:
        """Return the health of each upstream."""
        ...

    def drain(self) -> None:
        """Answer each new request with 503 from now on; running calls finish."""
        ...

    async def serve(self, scope: Scope, exchange: Exchange) -> None:
        """Answer the HTTP request of ``exchange``."""
        ...


class ConsoleFront:
    """The application ``app``, and before it the paths of ``console``. Other requests cost one comparison."""

    takes_exchanges = True
    """Says to our own HTTP server that ``serve`` takes a whole exchange."""

    def __init__(self, app: ServedApp, console: Console, *, announce: Callable[[Scope], None] | None = None) -> None:
        """``announce`` gets the scope of each request that is not for the console."""
        self._app, self._console, self._announce = app, console, announce

    @property
    def active_calls(self) -> int:
        """The number of calls in flight."""
        return self._app.active_calls

    def list_running(self, most: int) -> list[RunningCall]:
        """Return at most ``most`` of the calls that wait for their tools now, the oldest first; no long calls."""
        return self._app.list_running(most)

    def catalog(self) -> Catalog:
        """Return what is served now."""
        return self._app.catalog()

    def list_health(self) -> Sequence[UpstreamHealth]:
        """Return the health of each upstream."""
        return self._app.list_health()

    def drain(self) -> None:
        """Answer each new request with 503 from now on, and end the event streams of the console."""
        self._app.drain()
        self._console.drain()

    async def begin(self) -> None:
        """Begin the application and the console."""
        await begin_lifespan(self._app)
        await self._console.begin()

    async def end(self) -> None:
        """End both."""
        await self._console.end()
        await end_lifespan(self._app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request, as ASGI specifies."""
        if scope["type"] == "http":
            await self.serve(scope, get_exchange(receive, send))
        elif scope["type"] == "lifespan":
            await run_lifespan(self, receive, send)
        else:
            await close_websocket(scope, receive, send)

    async def serve(self, scope: Scope, exchange: Exchange) -> None:
        """Answer the HTTP request of ``exchange`` with the ASGI ``scope``."""
        if self._console.owns(scope):
            await self._console.serve(scope, exchange)
        else:
            if self._announce is not None:
                self._announce(scope)
            await self._app.serve(scope, exchange)
