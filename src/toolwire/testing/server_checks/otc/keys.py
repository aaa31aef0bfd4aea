"""The checks of authentication of Open Tool Calling."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from toolwire.testing.server_checks.check import Check, CheckFunction, Skip
from toolwire.testing.server_checks.probe import ServerProbe

from .send_call import UNKNOWN_TOOL, find_call_path


def _require_key(check: CheckFunction) -> CheckFunction:
    return lambda probe: check(probe) if probe.has_key else Skip("this run has no key")


def _check_list_key(probe: ServerProbe) -> str | None:
    answer = probe.get("/tools", keyed=False)
    return None if answer.status == 401 else f"GET /tools without a key: {answer}"


def _check_call_key(probe: ServerProbe) -> str | None:
    answer = probe.post(find_call_path(probe, "/call"), {"request": {"tool_id": UNKNOWN_TOOL}}, keyed=False)
    return None if answer.status == 401 else f"a call without a key: {answer}"


def _check_wrong_key(probe: ServerProbe) -> str | None:
    answer = probe.get("/tools", keyed=False, headers={"x-api-key": f"wrong-{uuid4()}"})
    return None if answer.status == 401 else f"a wrong key: {answer}"


def _check_challenge(probe: ServerProbe) -> str | None:
    answer = probe.get("/tools", keyed=False)
    return None if answer.get_header("www-authenticate") else "a 401 has no WWW-Authenticate"


def _check_ignored_key(probe: ServerProbe) -> str | Skip | None:
    if probe.has_key:
        return Skip("this run has a key")
    answer = probe.get("/tools", headers={"x-api-key": "not-required"})
    return None if answer.status == 200 else f"with a key that is not required: {answer}"


KEYS: Final = (
    Check("OXP-010", "GET /tools requires the key.", _require_key(_check_list_key)),
    Check("OTC-042", "A call requires the key.", _require_key(_check_call_key)),
    Check("OXP-010", "A wrong key is answered 401.", _require_key(_check_wrong_key)),
    Check("S-7", "A 401 has WWW-Authenticate.", _require_key(_check_challenge)),
    Check("OXP-012", "A server without authentication ignores credentials.", _check_ignored_key),
)
