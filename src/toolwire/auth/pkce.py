"""Proof Key for Code Exchange (RFC 7636), S256 and nothing else."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest

from .request_parameters import OAuthError, RequestParameters, invalid_grant, invalid_request

METHOD = "S256"
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43,128}")


def compute_challenge(verifier: str) -> str:
    """Return the S256 challenge of ``verifier``."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")


def read_challenge(parameters: RequestParameters) -> str | OAuthError:
    """Return the challenge of an authorization request; every client must send one, and by S256."""
    # AS-03
    challenge = parameters.get("code_challenge")
    if not challenge:
        return invalid_request("code_challenge is missing: PKCE is required of every client.")
    if parameters.get("code_challenge_method") != METHOD:
        return invalid_request("code_challenge_method must be S256.")
    if _CHALLENGE.fullmatch(challenge) is None:
        return invalid_request("code_challenge must be 43 to 128 characters of base64url.")
    return challenge


def find_proof_error(challenge: str, verifier: str) -> OAuthError | None:
    """Return the error if ``verifier`` does not match the challenge of a code, or None."""
    # AS-03, D-27
    if not verifier:
        return invalid_grant("code_verifier is missing.") if challenge else None
    if not challenge:
        return invalid_grant("A code_verifier was sent for a code without a code_challenge.")
    if _VERIFIER.fullmatch(verifier) is None:
        return invalid_grant("code_verifier must be 43 to 128 unreserved characters.")
    if not compare_digest(compute_challenge(verifier).encode(), challenge.encode()):
        return invalid_grant("code_verifier does not fit the code_challenge.")
    return None
