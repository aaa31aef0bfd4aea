"""Read a gateway file's settings for its callers' credentials: the store, the OAuth client, the exchange."""
# GW-02

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolwire.auth.client_identity import ClientIdentity
from toolwire.client.login.saved_credentials import KEY_FILE_VARIABLE, open_place
from toolwire.core.errors import UsageError
from toolwire.core.model import Secret
from toolwire.gateway.token_exchange import TokenExchange
from toolwire.stores.credentials.caller_vault import CallerVault
from toolwire.stores.credentials.files import CredentialPlace
from toolwire.stores.credentials.sealing import KEYRING_NAME, CredentialError, read_key_file, read_key_lines
from toolwire.stores.credentials.system_keyring import find_system_vault
from toolwire.stores.paths import find_credentials_place, find_state_places

_NO_KEY = (
    "Callers' credentials are always encrypted. Create a key that only you can read, such as `openssl "
    f"rand -hex 32` prints, and name its file with key-file or {KEY_FILE_VARIABLE}, or store it with "
    f"`keyring set toolwire {KEYRING_NAME}`."
)


def open_caller_vault(key_file: str, state: Path | str) -> CallerVault:
    """Return the store of the callers' credentials, in ``state`` or else where the user's own are stored.

    Raises:
        UsageError: the key that encrypts them is missing or cannot be used.
    """
    named = key_file or os.environ.get(KEY_FILE_VARIABLE, "")
    try:
        keys = read_key_file(Path(named)) if named else _read_keyring()
    except CredentialError as error:
        raise UsageError(str(error)) from error
    return CallerVault(_open_callers_place(state), keys)


def forget_caller(principal: str, state: str) -> int:
    """Delete the credentials of a caller at all upstreams, and return how many there were.

    Raises:
        CredentialError: they cannot be deleted.
    """
    return CallerVault(_open_callers_place(state), ()).forget(principal)


def _open_callers_place(state: Path | str) -> Path | CredentialPlace:
    location = find_state_places(state).inbox
    place = open_place(location or find_credentials_place())
    return place / "callers" if isinstance(place, Path) else place


def read_identity(client_id: str, secret_env: str) -> ClientIdentity | None:
    """Return the client that is registered at an authorization server, or None.

    Raises:
        UsageError: the environment has no such variable.
    """
    if not client_id:
        return None
    if not secret_env:
        return ClientIdentity(client_id=client_id)
    secret = os.environ.get(secret_env)
    if secret is None:
        raise UsageError(f"The environment variable {secret_env} for the client's secret is not set.")
    return ClientIdentity(client_id=client_id, secret=Secret(secret), method="client_secret_basic")


def read_exchange(members: Mapping[str, Any]) -> TokenExchange:
    """Return how tokens are exchanged, from the table ``exchange``.

    Raises:
        UsageError: the environment variable with the client secret is not set.
    """
    identity = read_identity(members["client-id"], members.get("client-secret-env", ""))
    return TokenExchange(
        token_url=members["token-url"],
        identity=identity or ClientIdentity(client_id=""),
        audience=members.get("audience", ""),
        resource=members.get("resource", ""),
        scopes=tuple(members.get("scopes", ())),
    )


def _read_keyring() -> tuple[Secret, ...]:
    vault = find_system_vault()
    keyring = None if vault is None else vault.get(KEYRING_NAME)
    if not keyring:
        raise UsageError(_NO_KEY)
    return read_key_lines(keyring, "the key in the keyring")
