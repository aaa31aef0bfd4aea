"""Looking at a URL without saying who looks: credentials go out only once the server has asked for them."""

from __future__ import annotations

from toolwire.client.transport.drivers import PieceHandler, SyncPieceHandler, SyncTransport, Transport
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem

_WANTS_CREDENTIALS = (401, 403)


class AuthOnChallenge:
    """A transport that sends without credentials, and again with them where the answer was 401 or 403. [XL-014, C-8]"""

    def __init__(self, unsigned: Transport, signed: Transport) -> None:
        self._unsigned = unsigned
        self._signed = signed

    async def send(self, request: Request) -> Response | Problem:
        """Return what came back for ``request``."""
        answer = await self._unsigned.send(request)
        return await self._signed.send(request) if _is_refusal(answer) else answer

    async def listen(self, request: Request, hear: PieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what came back for ``request``; nothing of a refusal is heard."""
        answer = await self._unsigned.listen(request, hear, brief=brief)
        return await self._signed.listen(request, hear, brief=brief) if _is_refusal(answer) else answer

    async def aclose(self) -> None:
        """Close both transports."""
        await self._unsigned.aclose()
        await self._signed.aclose()


class SyncAuthOnChallenge:
    """What Discreet is, blocking."""

    def __init__(self, unsigned: SyncTransport, signed: SyncTransport) -> None:
        self._unsigned = unsigned
        self._signed = signed

    def send(self, request: Request) -> Response | Problem:
        """Return what came back for ``request``."""
        answer = self._unsigned.send(request)
        return self._signed.send(request) if _is_refusal(answer) else answer

    def listen(self, request: Request, hear: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what came back for ``request``; nothing of a refusal is heard."""
        answer = self._unsigned.listen(request, hear, brief=brief)
        return self._signed.listen(request, hear, brief=brief) if _is_refusal(answer) else answer

    def close(self) -> None:
        """Close both transports."""
        self._unsigned.close()
        self._signed.close()


def _is_refusal(answer: Response | Problem) -> bool:
    return isinstance(answer, Response) and answer.status in _WANTS_CREDENTIALS
