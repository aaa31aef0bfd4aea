"""How OAuth says no."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error of an OAuth endpoint: its registered word, one sentence for people, and the HTTP status."""

    error: str
    description: str
    status: int = 400

    def write(self) -> dict[str, str]:
        """Return the members of the error as it goes over the wire."""
        return {"error": self.error, "error_description": self.description}


def invalid_request(description: str) -> Refusal:
    """Return the Refusal of a request that is malformed."""
    return Refusal(error="invalid_request", description=description)


def invalid_client(description: str) -> Refusal:
    """Return the Refusal of a client that is not known, or did not show who it is."""
    return Refusal(error="invalid_client", description=description, status=401)


def invalid_grant(description: str) -> Refusal:
    """Return the Refusal of a code or token that is not good, or not for this client."""
    return Refusal(error="invalid_grant", description=description)
