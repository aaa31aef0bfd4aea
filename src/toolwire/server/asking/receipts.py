"""Require receipts: a call that needs consent runs only with proof, signed by a known key, that its user decided.

Rules:
- A receipt is for this server, caller, tool, definition, arguments and one-time token. The token is accepted once.
- Only keys that the operator names, in a file or at a URL, are accepted.
- A receipt is stored before its call runs. If it cannot be stored, the call does not run.
"""
# CC-06

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from toolwire.core.errors import DefinitionError
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.model import Call, Json
from toolwire.framing import jsontext
from toolwire.stores.consent.open import is_in_database, open_decisions
from toolwire.stores.outage_log import OutageLog, list_store_errors

from .receipt_keys import KeyFetcher, open_key_source

if TYPE_CHECKING:  # an extra, and few servers require receipts
    from toolwire.auth.receipt import ReceiptBinding
    from toolwire.consent.decision_record import Audit

Receipts: TypeAlias = Literal["", "required"]
"""Whether a call that needs consent must bring a receipt."""
KEYS_PATH: Final = "/.well-known/toolwire-receipts.json"
"""Where a server publishes the keys that it accepts, as a JWK Set."""
STDIO: Final = "stdio"
"""The host name that stands for a server on standard input and output."""

_CACHED_FOR_FIVE_MINUTES: Final = (b"cache-control", b"public, max-age=300")
_log = logging.getLogger("toolwire")


class ReceiptVerifier:
    """Verifies the receipts of one server's calls, and stores them in ``audit`` if it is set.

    ``keys`` is a file with a JWK Set, or fetches one from a URL. ``audience`` is the host and port by which clients
    call the server. Without it, a request must name an allowed host or the socket that receives it. ``clock`` returns
    seconds since 1970.
    """

    def __init__(
        self,
        keys: Path | str | KeyFetcher,
        *,
        audience: str = "",
        audit: Audit | None = None,
        is_remote: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Read the keys. ``is_remote`` says that ``audit`` waits for a database.

        Raises:
            DefinitionError: the keys cannot be read, or none of them can sign receipts.
        """
        self._keys = open_key_source(keys)
        self._audience = audience.lower()
        self._outages = OutageLog(_log, "Receipts can be stored again.")
        self._audit = audit
        self.is_remote = is_remote
        self._clock = clock

    def build_terms(self, call: Call) -> dict[str, Json]:
        """Return what the client of ``call`` must sign in addition to what it already knows."""
        from toolwire.auth.receipt import VALID_S  # as above

        return {
            "principal": call.context.principal,
            "tool": call.tool.id,
            "definition": _digest_definition(call),
            "expires_at": int(self._clock() + VALID_S),
        }

    def find_fault(self, call: Call) -> str:
        """Return why the receipt of ``call`` does not prove that its user allowed it, or ``""`` if it does."""
        from toolwire.auth.receipt import find_receipt_fault  # as above

        if not call.context.receipt:
            return "it came without one"
        if not self._audience and not call.context.host:
            # AT-34: a receipt for the server of somebody else would count here.
            return (
                "this server does not know the address at which it was called; its operator names it (receipt_audience)"
            )
        fault = find_receipt_fault(call.context.receipt, self._keys.get_keys(), self._bind(call), self._clock())
        if fault:
            self._keys.renew()  # The key can be a new one, which is then accepted for the next call.
        return fault

    def record(self, call: Call, subject: bytes) -> bool:
        """Add the receipt of ``call`` to the log, under the digest ``subject``. Return whether that was possible."""
        if self._audit is None:
            return True
        from toolwire.auth.receipt import StoredReceipt  # as above
        from toolwire.consent.decision_record import Decision  # as above

        stored = StoredReceipt(receipt=call.context.receipt, binding=self._bind(call))
        record = Decision(
            at=self._clock(),
            principal=call.context.principal,
            connection="",
            tool=call.tool.id,
            binding=subject.hex(),
            decision="allowed",
            channel="receipt",
            site=stored.binding.audience,
            receipt=jsontext.write(stored.to_json()).decode(),
        )
        try:
            self._audit.append(record)
        except list_store_errors(DefinitionError) as error:
            text = "A call of %s was refused: its receipt cannot be stored (%s)."
            self._outages.record_failure(text, call.tool.id, error)
            return False
        self._outages.record_success()
        return True

    def publish(self) -> Response:
        """Return the public keys that are accepted, as a JWK Set, without the names of their owners."""
        keys = self._keys.get_keys().to_jwks()
        return Response(200, (*JSON_HEADERS, _CACHED_FOR_FIVE_MINUTES), jsontext.write(keys))

    def _bind(self, call: Call) -> ReceiptBinding:
        from toolwire.auth.receipt import ReceiptBinding, digest_arguments  # as above

        context = call.context
        return ReceiptBinding(
            audience=self._audience or context.host,
            principal=context.principal,
            tool=call.tool.id,
            definition=_digest_definition(call),
            arguments=digest_arguments(call.arguments),
            nonce=context.confirmation,
        )


def open_receipt_verifier(
    receipts: str, keys: Path | str | KeyFetcher, *, audience: str = "", place: Path | str = ""
) -> ReceiptVerifier | None:
    """Return a receipt verifier, or None if receipts are not required. It stores receipts in ``place``, if that is set.

    Raises:
        DefinitionError: the value is unknown, the options exclude each other, or a file cannot be used.
    """
    if receipts not in ("", "required"):
        raise DefinitionError(f'receipts must be "required" or left out, not {receipts!r}.')
    if not receipts:
        if callable(keys) or str(keys) or audience:
            raise DefinitionError('Receipt keys and an audience need receipts="required".')
        return None
    audit: Audit | None = open_decisions(place) if str(place) else None
    try:
        return ReceiptVerifier(keys, audience=audience, audit=audit, is_remote=is_in_database(place))
    except ModuleNotFoundError as error:
        raise DefinitionError(f"{error}.") from error


def _digest_definition(call: Call) -> str:
    from toolwire.consent.tool_definition import build_definition, definition_hash  # most servers never ask

    return definition_hash(build_definition(call.tool))
