"""Keep tokens valid: refresh them before they expire, one refresh at a time among all processes.

Rules:
- The result of a refresh is stored before it is used.
- A refused refresh ends the credential; the user must sign in again.
"""

# AC-09: a refresh token is used once, so two refreshes at a time would end the sign-in.

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from shlex import quote
from threading import Lock
from time import time

from toolwire.auth.authorization_code import renew_credential
from toolwire.auth.credential import Credential, name_account
from toolwire.auth.dpop import ALGORITHM, NEEDED, Prover, can_prove, create_proof_key
from toolwire.auth.metadata_discovery import SignInTarget
from toolwire.client.transport.drivers import SyncTransport, run
from toolwire.core.model import Kind, Problem, Secret
from toolwire.stores.credentials.files import CredentialStore

# AC-09: refreshed a minute early, so that no token expires on its way to the server.
_SKEW_S = 60.0


class TokenRefresher:
    """Keeps the credential of ``account`` for ``site`` valid. There may be none yet. Threads may share one."""

    def __init__(
        self,
        site: str,
        credentials: CredentialStore,
        stored: Credential | None,
        transport: SyncTransport,
        *,
        account: str = "",
        now: Callable[[], float] = time,
    ) -> None:
        self._site, self._account = site, account
        self._credentials = credentials
        self._credential = stored
        self._transport = transport
        self._now = now
        self._lock = Lock()
        self._prover: Prover | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no credential."""
        return self._credential is None

    @property
    def identity(self) -> tuple[str, tuple[str, ...]]:
        """The name and the scopes of the sign-in; a refresh does not change them."""
        credential = self._credential
        return ("", ()) if credential is None else (credential.storage_name, credential.scopes)

    @property
    def credential(self) -> Credential | None:
        """The last known credential, valid or not."""
        return self._credential

    def find_valid(self) -> Credential | None:
        """Return the credential if it needs no refresh now, else None. It never waits."""
        credential = self._credential
        return credential if credential is not None and not self._is_expiring(credential) else None

    def ensure_valid(self, refused: Secret | None = None, *, is_certain: bool = True) -> Credential | Problem:
        """Return a valid credential, refreshed if needed. ``refused`` is an access token that the server refused.

        Without ``is_certain``, the server may have refused something else: then the token is kept if there is no other.
        """
        with self._lock:
            credential = self._credential
            if credential is None:  # another process may have signed in meanwhile
                credential = self._credential = self._credentials.find_covering(self._site, self._account)
            if credential is None:
                return self._build_ended()
            with self._credentials.lock(credential.storage_name):
                # Read under the lock: another process may have refreshed it, and its result is then used.
                stored = self._credentials.get(credential.storage_name)
                good = stored is not None and not self._is_expiring(stored) and stored.access != refused
                if stored is None or good or stored.kind == "key":
                    self._credential = stored
                    return stored if stored is not None and good else self._build_ended()
                return self._refresh(stored, keeps_stored=not is_certain and not self._is_expiring(stored))

    def replace(self, newer: Credential) -> None:
        """Use ``newer`` in place of the present credential, and store it in place of one for the same resource."""
        newer = replace(newer, principal=name_account(self._account))
        with self._lock, self._credentials.lock(newer.storage_name):
            credential = self._credential
            # I-23: a sign-in for another part of the site stays.
            if (
                credential is not None
                and newer.storage_name != credential.storage_name
                and newer.resource == credential.resource
            ):
                self._credentials.delete(credential.storage_name)
            self._credentials.put(newer)
            self._credential = newer

    def find_prover(self, credential: Credential) -> Prover | Problem | None:
        """Return what proves that the key of ``credential`` is held, None if its tokens are not bound to one."""
        if credential.proof_key is None:
            return None
        # One for all requests: it remembers the nonces of the servers.
        prover = self._prover
        if prover is None or prover.key != credential.proof_key:
            if not can_prove():
                return build_missing_problem()
            self._prover = prover = build_prover(credential.proof_key, self._now)
        return prover

    def _refresh(self, stored: Credential, *, keeps_stored: bool) -> Credential | Problem:
        prover = self.find_prover(stored)
        if isinstance(prover, Problem):
            return prover
        newer = run(renew_credential(stored, self._now(), prover), self._transport)
        if isinstance(newer, Problem):
            # RFC 6749, 5.2: only invalid_grant says that the refresh token is void. Any other failure may pass.
            if newer.details.get("error") != "invalid_grant":
                return newer
            if keeps_stored:  # AO-02: nobody said that the access token is not valid
                if stored.refresh is not None:
                    stored = replace(stored, refresh=None)
                    self._credentials.put(stored)
                self._credential = stored
            else:
                self._credentials.delete(stored.storage_name)
                self._credential = None
            return self._build_ended()
        # A crash after this line loses nothing: the new refresh token is stored.
        self._credentials.put(newer)
        self._credential = newer
        return newer

    def _is_expiring(self, credential: Credential) -> bool:
        return credential.expires_at is not None and self._now() >= credential.expires_at - _SKEW_S

    def _build_ended(self) -> Problem:
        chosen = f" --account {quote(self._account)}" if self._account else ""
        text = f"The sign-in for {self._site} has expired. Run toolwire login {self._site}{chosen}."
        return Problem(kind=Kind.UNAUTHORIZED, message=text, details={"error": "login_required"})


def build_prover(key: Secret | None, now: Callable[[], float] = time) -> Prover | None:
    """Return what proves with ``key``, None without one."""
    return None if key is None else Prover(key=key, now=now, create_id=lambda: secrets.token_urlsafe(16))


def create_target_key(target: SignInTarget) -> Secret | Problem | None:
    """Return a new key for a sign-in at ``target``, None if its tokens are not bound, or why there is none."""
    if not target.binds_tokens:
        return None
    taken = target.server.proof_algorithms
    if taken and ALGORITHM not in taken:
        text = f"{target.server.issuer} does not accept proofs signed with {ALGORITHM}, so it cannot bind a token."
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    if not can_prove():
        return build_missing_problem()
    return create_proof_key()


def build_missing_problem() -> Problem:
    """Return the Problem of an installation that cannot sign proofs."""
    return Problem(kind=Kind.UNAUTHORIZED, message=f"{NEEDED}.", details={"error": "missing_extra"})
