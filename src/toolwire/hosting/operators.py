"""Find who may see the console of a server: the owners of keys that have its scope."""
# CO-02

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from toolwire.limits import RulesByCaller
from toolwire.server.access.api_keys import ApiKey, ApiKeyCallers
from toolwire.server.access.callers import Caller
from toolwire.server.build import apply_caller_rules

SCOPE: Final = "toolwire:console"
"""The scope of a key whose owner is an operator. A key without scopes calls every tool, and is no operator's."""


def find_operators(keys: Sequence[ApiKey], rules: RulesByCaller) -> dict[str, str]:
    """Return the name of each operator by the digest of their key."""
    callers = apply_caller_rules(ApiKeyCallers(keys), rules)
    found: dict[str, str] = {}
    for key in keys:
        caller = callers.find_caller({b"authorization": b"Bearer " + key.key.reveal().encode()})
        if isinstance(caller, Caller) and caller.scopes is not None and SCOPE in caller.scopes:
            found[digest_key(key.key.reveal())] = caller.name.removeprefix("key:")
    return found


def digest_key(key: str) -> str:
    """Return what stands for a key in the memory of a server."""
    return sha256(key.encode()).hexdigest()
