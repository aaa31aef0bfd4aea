"""Find the page where a user grants a tool access to a provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from toolwire.core.model import Authorization


@dataclass(frozen=True, slots=True)
class GrantPage:
    """The page where a user grants access; a program asks ``check_url`` whether it was granted."""

    # OXP-011

    url: str
    check_url: str = ""


class Authorizer(Protocol):
    """Finds the page where authorization by a provider begins."""

    def find_page(self, needed: Authorization, principal: str) -> GrantPage | None:
        """Return where ``principal`` grants ``needed``, a provider and its scopes, or ``None`` if there is no page."""
        ...


class GrantPages:
    """One page for all callers: a URL, or a ``GrantPage``, for each provider's id."""

    def __init__(self, pages: Mapping[str, str | GrantPage]) -> None:
        self._pages = {id_: GrantPage(page) if isinstance(page, str) else page for id_, page in pages.items()}

    def find_page(self, needed: Authorization, principal: str) -> GrantPage | None:
        """Return the page of the provider, which is the same for every ``principal``."""
        del principal
        return self._pages.get(needed.id)
