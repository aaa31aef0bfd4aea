"""Define the errors of OAuth endpoints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthError:
    """An error of an OAuth endpoint: its registered code, one sentence, and the HTTP status."""

    error: str
    description: str
    status: int = 400

    def to_json(self) -> dict[str, str]:
        """Return the members of the error as it goes over the wire."""
        return {"error": self.error, "error_description": self.description}


def invalid_request(description: str) -> OAuthError:
    """Return the error of a malformed request."""
    return OAuthError(error="invalid_request", description=description)


def invalid_client(description: str) -> OAuthError:
    """Return the error of a client that is unknown or did not authenticate."""
    return OAuthError(error="invalid_client", description=description, status=401)


def invalid_grant(description: str) -> OAuthError:
    """Return the error of a code or token that is not valid, or not for this client."""
    return OAuthError(error="invalid_grant", description=description)
