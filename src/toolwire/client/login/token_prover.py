"""Make what proves that we hold the key of a token (RFC 9449), with the clock and the randomness of this machine."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from time import time

from toolwire.auth.dpop import ALGORITHM, NEEDED, Prover, can_prove, create_proof_key
from toolwire.auth.metadata_discovery import SignInTarget
from toolwire.core.model import Kind, Problem, Secret


def build_prover(key: Secret | None, now: Callable[[], float] = time) -> Prover | None:
    """Return what proves with ``key``, None without one."""
    return None if key is None else Prover(key=key, now=now, create_id=lambda: secrets.token_urlsafe(16))


def create_target_key(target: SignInTarget) -> Secret | Problem | None:
    """Return a new key for a sign-in at ``target``, None if its tokens are not bound, or why there is none."""
    if not target.binds_tokens:
        return None
    taken = target.server.proof_algorithms
    if taken and ALGORITHM not in taken:
        text = f"{target.server.issuer} takes no proofs that are signed with {ALGORITHM}, so it cannot bind a token."
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    if not can_prove():
        return build_missing_problem()
    return create_proof_key()


def build_missing_problem() -> Problem:
    """Return the Problem of an installation that cannot sign proofs."""
    return Problem(kind=Kind.UNAUTHORIZED, message=f"{NEEDED}.", details={"error": "missing_extra"})
