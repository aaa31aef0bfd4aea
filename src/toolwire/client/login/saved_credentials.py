"""Find the stored credential for a URL, and keep it valid while a connection is open."""

from __future__ import annotations

import os
from pathlib import Path

from toolwire.client.transport.drivers import SyncTransport
from toolwire.core.model import Secret
from toolwire.core.url_origin import get_origin
from toolwire.stores.credentials.files import CredentialStore
from toolwire.stores.credentials.system_keyring import find_system_vault
from toolwire.stores.paths import find_credentials_folder

from .auth_transport import CredentialAuth
from .sign_in import SignInOptions, SignInUser, step_up
from .token_refresher import TokenRefresher


def open_credentials(folder: Path | None = None) -> CredentialStore:
    """Return the credentials of this user: in the system's keyring, or in files that only the user can read.

    ``TOOLWIRE_PASSPHRASE`` encrypts the files if there is no keyring.
    """
    # AC-10: a credential is never stored where others can read it.
    folder = find_credentials_folder() if folder is None else folder
    passphrase = os.environ.get("TOOLWIRE_PASSPHRASE")
    return CredentialStore(folder, find_vault=find_system_vault, passphrase=Secret(passphrase) if passphrase else None)


def find_auth(
    url: str,
    transport: SyncTransport,
    credentials: CredentialStore | None,
    user: SignInUser | None,
    options: SignInOptions | None = None,
) -> CredentialAuth | None:
    """Return what signs requests to the site of ``url``, or None if there is no credential and no user to ask.

    ``options`` says how the user signs in.
    """
    if credentials is None:
        credentials = open_credentials()
    first = credentials.find_covering(url)
    if first is None and user is None:
        return None
    site = get_origin(url)
    sign_in = None if user is None else step_up(options or SignInOptions(), user, transport)
    return CredentialAuth(site, TokenRefresher(site, credentials, first, transport), sign_in)
