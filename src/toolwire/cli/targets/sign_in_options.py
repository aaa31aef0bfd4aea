"""Read from the command line how the user signs in: the client that they registered at the site, and its secret."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.program_grants import IdentityProvider
from toolwire.client.login.sign_in import SignInOptions
from toolwire.core.errors import DefinitionError, UsageError
from toolwire.core.model import Secret
from toolwire.hosting.input_file import read_input_file
from toolwire.hosting.targets.url_options import read_key
from toolwire.stores.credentials.sealing import CredentialError, read_private_text

_MAX_BYTES = 32_768


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


def read_program_sign_in(arguments: Namespace, options: SignInOptions) -> SignInOptions:
    """Return ``options`` with the key, the signed token and the identity provider that the command line names.

    Raises:
        UsageError: a file or a variable cannot be read, or options that belong together are not together.
    """
    assertion = _read_assertion(arguments)
    provider = None
    if arguments.identity_provider is not None:
        if assertion is None or arguments.provider_client_id is None:
            raise UsageError("--identity-provider needs --provider-client-id, and --assertion-file or --assertion-env.")
        secret = read_key(None, arguments.provider_secret_env)
        method = "none" if secret is None else "client_secret_basic"
        there = ClientIdentity(client_id=arguments.provider_client_id, secret=secret, method=method)
        provider = IdentityProvider(issuer=arguments.identity_provider, identity=there)
    elif arguments.provider_client_id is not None or arguments.provider_secret_env is not None:
        raise UsageError("--provider-client-id and --provider-secret-env need --identity-provider.")
    identity = options.identity
    if arguments.client_key is not None:
        if identity is None or identity.secret is not None:
            raise UsageError("--client-key needs --client-id, and cannot be used with --client-secret-env.")
        identity = _add_key(identity, arguments.client_key)
    return replace(
        options, identity=identity, provider=provider, assertion=None if assertion is None else lambda _: assertion
    )


def _read_assertion(arguments: Namespace) -> Secret | None:
    if arguments.assertion_file is None:
        return read_key(None, arguments.assertion_env)
    if arguments.assertion_env is not None:
        raise UsageError("Give either --assertion-file or --assertion-env, not both.")
    # Not only the user's own file: a platform writes the token of a workload as it likes.
    data = read_input_file(Path(arguments.assertion_file), _MAX_BYTES, "--assertion-file")
    return read_key(data.decode("utf-8", "replace").strip(), None)


def _add_key(identity: ClientIdentity, path: str) -> ClientIdentity:
    from toolwire.auth.client_key import ClientKey  # an extra

    try:
        return replace(identity, method="private_key_jwt", key=ClientKey(read_private_text(Path(path))))
    except OSError as error:
        raise UsageError(f"Cannot read --client-key: {error.strerror}.") from error
    except (CredentialError, DefinitionError) as error:
        raise UsageError(f"--client-key: {error}") from error
