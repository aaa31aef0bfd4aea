"""Read from the command line how the user signs in: the client that they registered at the site, and its secret."""

from __future__ import annotations

from argparse import Namespace

from toolwire.auth.client_identity import ClientIdentity
from toolwire.client.login.sign_in import SignInOptions

from .open_target import read_key


def read_sign_in(arguments: Namespace) -> SignInOptions:
    """Return the client that the options name, or one that is registered when it is needed.

    Raises:
        UsageError: the environment has no variable with the secret of the client.
    """
    # AC-04
    document_url = arguments.client_document or ""
    if arguments.client_id is None:
        return SignInOptions(document_url=document_url)
    secret = read_key(None, arguments.client_secret_env)
    method = "none" if secret is None else "client_secret_basic"
    identity = ClientIdentity(client_id=arguments.client_id, secret=secret, method=method)
    return SignInOptions(identity=identity, document_url=document_url)
