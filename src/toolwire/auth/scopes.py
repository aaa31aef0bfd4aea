"""Read, write and select scopes, the words that say what a token may do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from .request_parameters import OAuthError

_TOKEN = re.compile(r"[!#-\[\]-~]{1,128}")
_MAX_SCOPES = 64


def read_scopes(text: str) -> tuple[str, ...] | OAuthError:
    """Return the scopes of ``text``, each once and in order."""
    scopes = tuple(dict.fromkeys(text.split(" "))) if text else ()
    scopes = tuple(scope for scope in scopes if scope)
    if len(scopes) > _MAX_SCOPES or not all(_TOKEN.fullmatch(scope) for scope in scopes):
        return invalid_scope("scope is not a list of words.")
    return scopes


def write_scopes(scopes: Iterable[str]) -> str:
    """Return ``scopes`` as a token request sends them."""
    return " ".join(scopes)


def invalid_scope(description: str) -> OAuthError:
    """Return the error of a scope."""
    return OAuthError(error="invalid_scope", description=description)


def select_supported_scopes(
    asked: Iterable[str], known: Collection[str], *, drop: bool
) -> tuple[str, ...] | OAuthError:
    """Return the scopes of ``asked`` that the server has. Others are an error, or ignored with ``drop``."""
    # AS-07
    asked = tuple(asked)
    unknown = [scope for scope in asked if scope not in known]
    if unknown and not drop:
        return invalid_scope(f"This server does not offer the scope {unknown[0]!r}.")
    found = tuple(scope for scope in asked if scope in known)
    return found or invalid_scope("This server offers none of these scopes.")


def select_ticked_scopes(asked: Iterable[str], chosen: Collection[str]) -> tuple[str, ...]:
    """Return the scopes of ``asked`` that the user selected. The user cannot add others."""
    # AS-07
    return tuple(scope for scope in asked if scope in chosen)


def merge_scopes(*several: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes of all of ``several``, each once, in order."""
    return tuple(dict.fromkeys(scope for scopes in several for scope in scopes))
