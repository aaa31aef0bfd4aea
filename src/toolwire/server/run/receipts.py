"""Require receipts: a call that needs consent runs only with the proof that its user decided, signed by a known key.

Rules:
- A receipt is one for this server, caller, tool, definition, arguments and word; the word is accepted once.
- The keys are in a file of the operator, which is read again when it changes. No other key is accepted.
- A receipt is kept before its call runs. If it cannot be kept, the call does not run.
"""
# CC-06

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from toolwire.core.errors import DefinitionError
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.model import Call, Json, Problem
from toolwire.framing import jsontext

if TYPE_CHECKING:  # an extra, and few servers require receipts
    from toolwire.auth.receipt import ReceiptBinding, ReceiptKeys
    from toolwire.consent.decision_record import Audit

Receipts: TypeAlias = Literal["", "required"]
"""Whether a call that needs consent must come with a receipt."""
KEYS_PATH: Final = "/.well-known/toolwire-receipts.json"
"""Where a server publishes the keys that it accepts, as a JWK Set."""
STDIO: Final = "stdio"
"""What stands for the host of a server on standard input and output."""

_CACHED_FOR_FIVE_MINUTES: Final = (b"cache-control", b"public, max-age=300")
_MAX_FILE: Final = 1_048_576
_log = logging.getLogger("toolwire")


class ReceiptVerifier:
    """Verifies the receipts of one server's calls, and keeps them in ``audit`` if there is one.

    ``keys`` is a file with a JWK Set. ``audience`` is the host and port by which clients call the server; ``""`` means
    that of each request. ``clock`` returns seconds since 1970.
    """

    def __init__(
        self,
        keys: Path | str,
        *,
        audience: str = "",
        audit: Audit | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Read the keys.

        Raises:
            DefinitionError: the file cannot be read, or has no key that receipts can be signed with.
        """
        if not str(keys):
            raise DefinitionError("Receipts need the public keys of those who sign: receipt_keys=FILE, a JWK Set.")
        self._file = Path(keys)
        self._audience = audience.lower()
        self._audit = audit
        self._clock = clock
        self._lock = Lock()
        self._stamp: tuple[int, int, int] = (0, 0, 0)
        self._keys = self._read()

    def build_terms(self, call: Call) -> dict[str, Json]:
        """Return what the client of ``call`` is to sign, besides what it knows by itself."""
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
        self._renew()
        return find_receipt_fault(call.context.receipt, self._keys, self._bind(call), self._clock())

    def keep(self, call: Call, subject: bytes) -> bool:
        """Add the receipt of ``call`` to the log, under the digest ``subject``. Return whether that was possible."""
        if self._audit is None:
            return True
        from toolwire.auth.receipt import KeptReceipt  # as above
        from toolwire.consent.decision_record import Decision  # as above

        kept = KeptReceipt(receipt=call.context.receipt, binding=self._bind(call))
        record = Decision(
            at=self._clock(),
            principal=call.context.principal,
            connection="",
            tool=call.tool.id,
            binding=subject.hex(),
            decision="allowed",
            channel="receipt",
            site=kept.binding.audience,
            receipt=jsontext.write(kept.to_json()).decode(),
        )
        try:
            self._audit.append(record)
        except (OSError, sqlite3.Error, DefinitionError) as error:
            _log.error("A call of %s was refused: its receipt cannot be kept (%s).", call.tool.id, error)
            return False
        return True

    def publish(self) -> Response:
        """Return the public keys that are accepted, as a JWK Set, without the names of their owners."""
        self._renew()
        return Response(200, (*JSON_HEADERS, _CACHED_FOR_FIVE_MINUTES), jsontext.write(self._keys.to_jwks()))

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

    def _renew(self) -> None:
        """Read the keys again if their file has changed; while it cannot be read, the keys before count."""
        with self._lock:
            try:
                if _read_stamp(self._file) != self._stamp:
                    self._keys = self._read()
            except (OSError, DefinitionError) as error:
                _log.error("The keys of receipts are still those of before: %s", error)

    def _read(self) -> ReceiptKeys:
        from toolwire.auth.receipt import read_receipt_keys  # as above

        try:
            self._stamp = _read_stamp(self._file)
            with self._file.open("rb") as opened:
                text = opened.read(_MAX_FILE + 1)
        except OSError as error:
            raise DefinitionError(
                f"The keys of receipts {self._file} cannot be read: {error.strerror or error}."
            ) from error
        if len(text) > _MAX_FILE:
            raise DefinitionError(f"The keys of receipts {self._file} are larger than {_MAX_FILE:,} bytes.")
        keys = read_receipt_keys(text)
        if isinstance(keys, Problem):
            raise DefinitionError(f"The keys of receipts {self._file} cannot be used: {keys.message}")
        return keys


def open_receipt_verifier(
    receipts: str, keys: Path | str, *, audience: str = "", folder: Path | str = ""
) -> ReceiptVerifier | None:
    """Return what verifies receipts, or None if none are required. Receipts are kept in ``folder``, if there is one.

    Raises:
        DefinitionError: there is no such choice, the options do not go together, or a file cannot be used.
    """
    if receipts not in ("", "required"):
        raise DefinitionError(f'receipts is "required" or nothing, not {receipts!r}.')
    if not receipts:
        if str(keys) or audience:
            raise DefinitionError('The keys and the audience of receipts go with receipts="required".')
        return None
    audit: Audit | None = None
    if str(folder):
        from toolwire.stores.consent.audit import StoredAudit  # loads sqlite3

        audit = StoredAudit(Path(folder))
    try:
        return ReceiptVerifier(keys, audience=audience, audit=audit)
    except ModuleNotFoundError as error:
        raise DefinitionError(f"{error}.") from error


def _digest_definition(call: Call) -> str:
    from toolwire.consent.tool_definition import build_definition, definition_hash  # most servers never ask

    return definition_hash(build_definition(call.tool))


def _read_stamp(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
