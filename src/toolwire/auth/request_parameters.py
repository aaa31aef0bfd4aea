"""Read the parameters of an OAuth request from a query or a form, and define the errors of OAuth endpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

_MAX_PARAMETERS = 64
_MAY_REPEAT = frozenset({"resource"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestParameters:
    """Each parameter's one value. ``repeated`` names those that came more than once and so have none."""

    values: Mapping[str, str]
    resources: tuple[str, ...] = ()
    repeated: frozenset[str] = frozenset()

    def get(self, name: str) -> str:
        """Return the value of ``name``, empty where it is absent: an empty parameter is as good as none."""
        return self.values.get(name, "")

    def find_repeated(self) -> OAuthError | None:
        """Return the error of repeated parameters, or None."""
        # AS-04
        if not self.repeated:
            return None
        return invalid_request(f"The parameter {sorted(self.repeated)[0][:40]} was sent more than once.")


def read_parameters(text: str) -> RequestParameters | OAuthError:
    """Return the parameters of a query or form; only ``resource`` may repeat, empty ones are absent."""
    # AS-04
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS, errors="strict")
    except ValueError:
        return invalid_request("Cannot read the parameters.")
    if any("\0" in name or "\0" in value for name, value in pairs):  # no identifier has one, and no database keeps it
        return invalid_request("A parameter contains a null character.")
    count = Counter(name for name, _ in pairs)
    repeated = frozenset(name for name, times in count.items() if times > 1 and name not in _MAY_REPEAT)
    values = {name: value for name, value in pairs if value and name not in repeated and name not in _MAY_REPEAT}
    resources = tuple(dict.fromkeys(value for name, value in pairs if name == "resource" and value))
    return RequestParameters(values=values, resources=resources, repeated=repeated)


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
