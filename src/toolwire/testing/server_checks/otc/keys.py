"""The checks of who may ask a server of Open Tool Calling."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from toolwire.testing.server_checks.check import Check, Look, Skip
from toolwire.testing.server_checks.probe import ServerProbe

from .send_call import NOBODY, served


def _keyed(look: Look) -> Look:
    return lambda ask: look(ask) if ask.has_key else Skip("it is asked without a key")


def _list_needs_key(ask: ServerProbe) -> str | None:
    answer = ask.get("/tools", keyed=False)
    return None if answer.status == 401 else f"GET /tools without a key: {answer}"


def _call_needs_key(ask: ServerProbe) -> str | None:
    answer = ask.post(served(ask, "/call"), {"request": {"tool_id": NOBODY}}, keyed=False)
    return None if answer.status == 401 else f"a call without a key: {answer}"


def _wrong_key(ask: ServerProbe) -> str | None:
    answer = ask.get("/tools", keyed=False, headers={"x-api-key": f"wrong-{uuid4()}"})
    return None if answer.status == 401 else f"a wrong key: {answer}"


def _challenged(ask: ServerProbe) -> str | None:
    answer = ask.get("/tools", keyed=False)
    return None if answer.header("www-authenticate") else "a 401 has no WWW-Authenticate"


def _ignores_keys(ask: ServerProbe) -> str | Skip | None:
    if ask.has_key:
        return Skip("it is asked with a key")
    answer = ask.get("/tools", headers={"x-api-key": "nobody-asked"})
    return None if answer.status == 200 else f"with a key that nobody asked for: {answer}"


KEYS: Final = (
    Check("OXP-010", "The list needs the key.", _keyed(_list_needs_key)),
    Check("OTC-042", "A call needs the key.", _keyed(_call_needs_key)),
    Check("OXP-010", "A wrong key is answered 401.", _keyed(_wrong_key)),
    Check("S-7", "A 401 says how to say who you are.", _keyed(_challenged)),
    Check("OXP-012", "Without auth, credentials are not looked at.", _ignores_keys),
)
