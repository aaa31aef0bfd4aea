"""Call OpenTool servers by the names of the SDKs, asynchronous and blocking, over the same flows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from toolwire.client.transport.drivers import arun, run
from toolwire.client.transport.limits import BREAKER_FAILURES, TransportLimits
from toolwire.client.transport.network import Network, SyncNetwork
from toolwire.client.transport.request_rules import Credentials
from toolwire.core.model import Secret
from toolwire.core.url_origin import complete_url, get_origin
from toolwire.protocols.opentool import quirks
from toolwire.protocols.opentool.client import endpoint
from toolwire.protocols.opentool.objects import OpenTool
from toolwire.protocols.opentool.quirks import Quirk

from .flows import ask_version, call_function, load_document
from .messages import FunctionCall, ToolReturn, Version
from .streaming import astream, stream

HOST = "127.0.0.1"
PORT = 9627
_LIMITS = TransportLimits(breaker_failures=BREAKER_FAILURES)
AnyNetwork = TypeVar("AnyNetwork", Network, SyncNetwork)


class _OpenToolConnection(Generic[AnyNetwork]):
    """The address, the key and the network that both clients have."""

    _network_class: type[AnyNetwork]

    def __init__(
        self,
        base_url: str | None = None,
        *,
        host: str | None = None,
        port: int | None = None,
        api_key: str | Secret | None = None,
        allow_private: Sequence[str] = (),
        allow_http: Sequence[str] = (),
        ca_file: str | Path | None = None,
        limits: TransportLimits = _LIMITS,
        mended: Sequence[Quirk] = quirks.ANSWER,
    ) -> None:
        self.base_url = _build_base_url(base_url, host, port)
        self._mended = mended
        credentials = _build_credentials(self.base_url, api_key)
        self._network: AnyNetwork = self._network_class(
            credentials=credentials,
            allow_private=allow_private,
            allow_http=allow_http,
            ca_file=ca_file,
            limits=limits,
        )


class OpenToolClient(_OpenToolConnection[Network]):
    """A client of the OpenTool server at ``base_url``, with or without ``/opentool``.

    Pass ``host`` and ``port`` instead of a URL, or neither for port 9627 of this machine.

    - ``api_key``: sent only to the server's origin.
    - ``allow_private``: HTTPS origins that may have a private address.
    - ``allow_http``: HTTP origins that may be called, at private addresses only.
    - ``ca_file``: a PEM file with certificates to trust in addition to the system's.
    - ``mended``: known faults of real servers to correct. Remove an item to see the fault.

    Use it in ``async with``, or call ``aclose()`` at the end.

    Raises:
        ValueError: both a URL and a host are given, or the key cannot be sent in a header.
    """

    # A-22, C-8

    _network_class = Network

    async def version(self) -> Version:
        """Return the version of the server."""
        # OTRPC-015
        return await arun(ask_version(self.base_url), self._network, None)

    async def call(self, function_call: FunctionCall) -> ToolReturn:
        """Call a function, at most once, and return its result.

        Raises:
            OpenToolServerCallException: the call failed. The message says why.
            OpenToolException: there is no readable answer. The subclass says why.
        """
        # OTRPC-016
        return await arun(call_function(self.base_url, function_call, self._mended), self._network, None)

    def stream_call(self, function_call: FunctionCall) -> AsyncGenerator[ToolReturn, None]:
        """Yield each piece of a function's result, in order. The call starts when the first piece is read.

        If you read slowly, the function slows down. Leaving the iterator (``break``, ``aclose``) cancels the call.

        Raises:
            OpenToolServerCallException: the call failed, or its stream broke off. The message says why.
            OpenToolException: there is no readable answer. The subclass says why.
        """
        #
        return astream(self.base_url, function_call, self._mended, self._network)

    streamCall = stream_call

    async def load(self) -> OpenTool | None:
        """Return the server's document, or None. Without one, its functions can still be called by name."""
        # OTRPC-017
        return await arun(load_document(self.base_url), self._network, None)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._network.aclose()

    async def __aenter__(self) -> OpenToolClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class SyncOpenToolClient(_OpenToolConnection[SyncNetwork]):
    """The blocking form of OpenToolClient. Use it in ``with``, or call ``close()`` at the end."""

    _network_class = SyncNetwork

    def version(self) -> Version:
        """Return the version of the server."""
        # OTRPC-015
        return run(ask_version(self.base_url), self._network, None)

    def call(self, function_call: FunctionCall) -> ToolReturn:
        """Call a function and return its result. See ``OpenToolClient.call``."""
        # OTRPC-016
        return run(call_function(self.base_url, function_call, self._mended), self._network, None)

    def stream_call(self, function_call: FunctionCall) -> Generator[ToolReturn, None, None]:
        """Yield each piece of a function's result. See ``OpenToolClient.stream_call``."""
        #
        return stream(self.base_url, function_call, self._mended, self._network)

    streamCall = stream_call

    def load(self) -> OpenTool | None:
        """Return the server's document, or None. Without one, its functions can still be called by name."""
        # OTRPC-017
        return run(load_document(self.base_url), self._network, None)

    def close(self) -> None:
        """Close every connection."""
        self._network.close()

    def __enter__(self) -> SyncOpenToolClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _build_base_url(base_url: str | None, host: str | None, port: int | None) -> str:
    if base_url is not None:
        if host is not None or port is not None:
            raise ValueError("give either base_url or host and port, not both")
        return endpoint(complete_url(base_url))
    name = HOST if host is None else host
    name = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return endpoint(complete_url(f"{name}:{PORT if port is None else port}"))


def _build_credentials(base: str, api_key: str | Secret | None) -> Credentials:
    """Return the key as the header of the origin of ``base``, and of no other."""
    # C-1, A-25
    if api_key is None:
        return {}
    key = api_key.reveal() if isinstance(api_key, Secret) else api_key
    return {get_origin(base): (("authorization", Secret(f"Bearer {key}")),)}
