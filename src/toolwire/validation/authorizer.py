"""Where a person goes to grant a tool what it needs from a provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from toolwire.core.model import Authorization


@dataclass(frozen=True, slots=True)
class GrantPage:
    """Where a person grants it; at ``check_url`` a program sees whether they did."""

    # OXP-011

    url: str
    check_url: str = ""


class Authorizer(Protocol):
    """Knows for each provider where its authorization begins."""

    def find_page(self, needed: Authorization, principal: str) -> GrantPage | None:
        """Return where ``principal`` grants ``needed`` (a provider and its scopes), None where it is not known."""
        ...


class GrantPages:
    """The same page for everybody: a URL, or a Page, for each provider's id."""

    def __init__(self, pages: Mapping[str, str | GrantPage]) -> None:
        self._pages = {id_: GrantPage(page) if isinstance(page, str) else page for id_, page in pages.items()}

    def find_page(self, needed: Authorization, principal: str) -> GrantPage | None:  # noqa: ARG002 - the same for everybody
        """Return the page of the provider."""
        return self._pages.get(needed.id)
