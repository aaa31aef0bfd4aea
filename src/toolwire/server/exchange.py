"""What a server of our own can do faster than two messages of ASGI: give a body and take an answer at once."""

from __future__ import annotations

from toolwire.core.http import Response


class Exchange:
    """One request and its answer, whose ``send`` and ``receive`` are the ASGI ones. [decision 0048]

    An application that is given these very methods is next to the connection, with nothing between them that wants
    to see messages; only then may it use what is here. (No abstract class: to recognise one costs more than it saves.)
    """

    def arrived(self) -> bytes | None:
        """Return the body where it is there, whole; None where it must be received."""
        raise NotImplementedError

    def answered(self, response: Response) -> bool:
        """Send ``response`` whole; return False, having sent nothing, where that takes the messages of ASGI."""
        raise NotImplementedError


def exchange_of(method: object, other: object = None) -> Exchange | None:
    """Return the exchange whose ``send`` or ``receive`` this is, and the ``other`` too where it is given; else None."""
    owner = getattr(method, "__self__", None)
    if not isinstance(owner, Exchange) or (other is not None and getattr(other, "__self__", None) is not owner):
        return None
    return owner
