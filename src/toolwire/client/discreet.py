"""Looking at a URL without saying who looks: credentials go out only once the server has asked for them."""

from __future__ import annotations

from toolwire.core.http import Request, Response
from toolwire.core.model import Problem

from .drive import Door, Hear, SyncDoor, SyncHear

_WANTS_CREDENTIALS = (401, 403)


class Discreet:
    """A door that sends without credentials, and again with them where the answer was 401 or 403. [XL-014, C-8]"""

    def __init__(self, unsigned: Door, signed: Door) -> None:
        self._unsigned = unsigned
        self._signed = signed

    async def send(self, request: Request) -> Response | Problem:
        """Return what came back for ``request``."""
        answer = await self._unsigned.send(request)
        return await self._signed.send(request) if _refused(answer) else answer

    async def listen(self, request: Request, hear: Hear) -> Response | Problem:
        """Return what came back for ``request``; looking at a URL never streams, so it is signed at once."""
        return await self._signed.listen(request, hear)

    async def aclose(self) -> None:
        """Close both doors."""
        await self._unsigned.aclose()
        await self._signed.aclose()


class SyncDiscreet:
    """What Discreet is, blocking."""

    def __init__(self, unsigned: SyncDoor, signed: SyncDoor) -> None:
        self._unsigned = unsigned
        self._signed = signed

    def send(self, request: Request) -> Response | Problem:
        """Return what came back for ``request``."""
        answer = self._unsigned.send(request)
        return self._signed.send(request) if _refused(answer) else answer

    def listen(self, request: Request, hear: SyncHear) -> Response | Problem:
        """Return what came back for ``request``; looking at a URL never streams, so it is signed at once."""
        return self._signed.listen(request, hear)

    def close(self) -> None:
        """Close both doors."""
        self._unsigned.close()
        self._signed.close()


def _refused(answer: Response | Problem) -> bool:
    return isinstance(answer, Response) and answer.status in _WANTS_CREDENTIALS
