"""Keep which tools of an upstream an operator trusts to only read, where all processes of a gateway find it."""
# QF-01

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

from toolwire.consent.grant import GrantKey
from toolwire.core.model import Json

from .open import Place, open_grants

if TYPE_CHECKING:  # loads sqlite3
    from .grants import StoredGrants

OPERATORS: Final = "the operators of this gateway"
"""Whose permission the trust is."""


class OperatorTrust:
    """The trust of operators in the tools of one upstream, each as it was defined when it was trusted.

    ``place`` holds the permissions of a gateway. All but ``has`` may block.
    """

    def __init__(self, place: Place, upstream: str) -> None:
        self._place, self._upstream = place, upstream
        self._latest: dict[GrantKey, bool] = {}

    @cached_property
    def _grants(self) -> StoredGrants:
        grants = open_grants(self._place)
        with suppress(ConnectionError):  # then each call looks
            for one in grants.list_grants():
                if (one.key.principal, one.key.connection) == (OPERATORS, self._upstream):
                    self._latest[one.key] = grants.has_grant(one.key)
        return grants

    def has(self, key: GrantKey) -> bool:
        """Return whether the tool was trusted when this was last looked at. Only the first look blocks."""
        _ = self._grants
        return self._latest.get(key, False)

    def read_now(self, key: GrantKey) -> bool:
        """Return whether the tool is trusted now, whichever process was told so."""
        found = self._grants.has_grant(key)
        if found or key in self._latest:
            self._latest[key] = found
        return found

    def add(self, key: GrantKey, definition: Mapping[str, Json]) -> None:
        """Trust the tool with this definition, and with no earlier one.

        Raises:
            ConnectionError: it cannot be stored.
        """
        self._grants.revoke_outdated(key)
        self._grants.add(key)
        self._grants.pin_definition(key, definition)
        self._latest[key] = True

    def find_trusted(self, key: GrantKey) -> Mapping[str, Json] | None:
        """Return the definition of the tool that was trusted last, or None."""
        return self._grants.find_pinned(key)

    def count_use(self, key: GrantKey) -> None:
        """Count a call that ran because of the trust."""
        self._grants.count_use(key)
