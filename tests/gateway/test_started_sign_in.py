"""A sign-in that a caller of a gateway began, until the browser comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolwire.auth.authorization_code import StartedSignIn, start_sign_in
from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.dpop import create_proof_key
from toolwire.auth.metadata_discovery import AuthorizationServerMetadata, SignInTarget
from toolwire.core.model import Secret
from toolwire.gateway.started_sign_in import PendingSignIn, store_sign_in, take_sign_in
from toolwire.stores.credentials.caller_vault import CallerVault

ISSUER = "https://login.example"


@pytest.mark.requirement("MC-11")
@pytest.mark.parametrize("key", [None, create_proof_key()])
def test_sign_in_comes_back_with_the_key_that_its_tokens_are_bound_to(key: Secret | None, tmp_path: Path) -> None:
    server = AuthorizationServerMetadata(
        issuer=ISSUER, authorization_url=f"{ISSUER}/a", token_url=f"{ISSUER}/t", proof_algorithms=("ES256",)
    )
    target = SignInTarget(resource="https://tasks.example", server=server, binds_tokens=key is not None)
    started = start_sign_in(
        target, ClientIdentity(client_id="me"), f"{ISSUER}/back", ("a",), state="s", verifier="v" * 43, proof_key=key
    )
    assert isinstance(started, StartedSignIn)
    vault = CallerVault(tmp_path / "kept", (Secret("k" * 64),))
    stored = PendingSignIn("ada", "tasks", "cookie", started)
    assert store_sign_in(vault, stored, 0.0)
    assert all(b"PRIVATE KEY" not in path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file())
    assert take_sign_in(vault, "s", 1.0) == stored
    assert take_sign_in(vault, "s", 1.0) is None
