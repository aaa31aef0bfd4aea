"""Find the stored credential for a URL, and keep it valid while a connection is open."""

from __future__ import annotations

import os
from pathlib import Path

from toolwire.client.transport.drivers import SyncTransport
from toolwire.core.model import Secret
from toolwire.core.url_origin import get_origin
from toolwire.stores.credentials.files import CredentialPlace, CredentialStore
from toolwire.stores.credentials.sealing import read_key_file
from toolwire.stores.credentials.system_keyring import find_system_vault
from toolwire.stores.paths import find_credentials_place, is_postgres_url

from .credential_auth import CredentialAuth
from .sign_in import SignInOptions, SignInUser, step_up
from .token_refresher import TokenRefresher

KEY_FILE_VARIABLE = "TOOLWIRE_KEY_FILE"


def open_credentials(place: Path | str | None = None) -> CredentialStore:
    """Return the credentials of this user: in the system's keyring, in files that only the user can read, or encrypted.

    ``place`` is a folder or the URL of a PostgreSQL, where machines share them; the default is the state that
    TOOLWIRE_STATE names, else the user's own folder. The environment variable TOOLWIRE_KEY_FILE names a file with the
    key that encrypts them; TOOLWIRE_PASSPHRASE does so if there is neither such a file nor a keyring.

    Raises:
        CredentialError: the key file cannot be used.
        DefinitionError: the database cannot be used.
    """
    # AC-10: a credential is never stored where others can read it.
    place = find_credentials_place() if place is None else place
    passphrase, key_file = os.environ.get("TOOLWIRE_PASSPHRASE"), os.environ.get(KEY_FILE_VARIABLE)
    return CredentialStore(
        open_place(place),
        find_vault=find_system_vault,
        passphrase=Secret(passphrase) if passphrase else None,
        keys=read_key_file(Path(key_file)) if key_file else (),
    )


def open_place(place: Path | str) -> Path | CredentialPlace:
    """Return where credentials are: the folder ``place``, or a PostgreSQL at that URL.

    Raises:
        DefinitionError: the database cannot be used.
    """
    if isinstance(place, Path) or not is_postgres_url(place):
        return Path(place)
    from toolwire.stores.credentials.postgres import PostgresCredentials  # only the extra brings its driver

    return PostgresCredentials(place)


def find_auth(
    url: str,
    transport: SyncTransport,
    credentials: CredentialStore | None,
    user: SignInUser | None,
    options: SignInOptions | None = None,
    account: str = "",
) -> CredentialAuth | None:
    """Return what signs requests to the site of ``url``, or None if there is no credential and no user to ask.

    With given ``credentials``, one that comes later is used too.
    ``options`` says how the user signs in, and ``account`` which of several accounts is used.
    """
    is_given, credentials = credentials is not None, credentials or open_credentials()
    first = credentials.find_covering(url, account)
    if first is None and user is None and not is_given:
        return None
    site = get_origin(url)
    sign_in = None if user is None else step_up(options or SignInOptions(), user, transport)
    return CredentialAuth(site, TokenRefresher(site, credentials, first, transport, account=account), sign_in)
