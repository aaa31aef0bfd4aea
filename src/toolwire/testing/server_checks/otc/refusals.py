"""The checks of refusals of Open Tool Calling: unknown tools, bodies that are not calls, and missing keys."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from toolwire.testing.server_checks.check import Check, CheckFunction, Skip
from toolwire.testing.server_checks.probe import ServerProbe

from .send_call import NOT_RUN, UNKNOWN_TOOL, find_call_path, list_tools, send_call

_MALFORMED: Final = (
    ("not JSON", b"{not json"),
    ("NaN", b'{"request": {"tool_id": "x", "input": {"a": NaN}}}'),
    ("bytes that are not UTF-8", b'{"request": {"tool_id": "\xff"}}'),
    ("a list", b"[]"),
    ("an empty body", b""),
    ("200,000 brackets", b"[" * 200_000),
    ("a tool_id that is a number", b'{"request": {"tool_id": 7}}'),
    ("an input that is a list", b'{"request": {"tool_id": "x", "input": []}}'),
)


def _check_path(path: str) -> CheckFunction:
    def check(probe: ServerProbe) -> str | Skip | None:
        if path == "/tools/call" and "items" not in probe.get("/tools").members:
            return Skip('it lists no "items", as OXP does')
        return None if find_call_path(probe, path) == path else f"POST {path}: {probe.post(path, {})}"

    return check


def _check_unknown_tool(probe: ServerProbe) -> str | None:
    answer = send_call(probe, {"tool_id": UNKNOWN_TOOL, "input": {}})
    return None if answer.status in NOT_RUN else f"an unknown tool: {answer}"


def _check_unknown_tool_status(probe: ServerProbe) -> str | None:
    answer = send_call(probe, {"tool_id": UNKNOWN_TOOL, "input": {}})
    text = answer.members.get("message")
    if answer.status != 400:
        return f"an unknown tool: {answer}"
    return None if isinstance(text, str) and text else f'there is no "message": {answer}'


def _check_refusal_schema(probe: ServerProbe) -> str | None:
    answer = send_call(probe, {"tool_id": UNKNOWN_TOOL})
    return None if isinstance(answer.members.get("$schema"), str) else f"a refusal: {answer}"


def _check_other_major(probe: ServerProbe) -> str | None:
    answer = send_call(probe, {"tool_id": UNKNOWN_TOOL}, beside={"$schema": "urn:oxp:99.0"})
    return None if answer.status == 400 else f'"$schema": "urn:oxp:99.0": {answer}'


def _check_malformed_versions(probe: ServerProbe) -> str | Skip | None:
    tools = list_tools(probe)
    if not tools:
        return Skip("it lists no tools")
    name = str(tools[0].get("id") or tools[0].get("name")).partition("@")[0]
    for version in ("x", "-1", "1.0", "v1"):
        answer = send_call(probe, {"tool_id": f"{name}@{version}", "input": {"": ""}})
        if answer.status != 400:
            return f"{name}@{version}: {answer}"
    return None


def _check_unknown_members(probe: ServerProbe) -> str | None:
    plain = send_call(probe, {"tool_id": UNKNOWN_TOOL})
    more = send_call(probe, {"tool_id": UNKNOWN_TOOL, "x-more": 1}, beside={"x-more": {}})
    return None if plain.status == more.status else f"with unknown members: {more}; without: {plain}"


def _check_malformed_bodies(probe: ServerProbe) -> str | None:
    for what, body in _MALFORMED:
        answer = probe.post(find_call_path(probe, "/call"), body)
        if not 400 <= answer.status < 500:
            return f"{what}: {answer}"
    return None


def _check_invalid_calls(probe: ServerProbe) -> str | None:
    for what, body in (_MALFORMED[0], *_MALFORMED[3:5]):
        answer = probe.post(find_call_path(probe, "/call"), body)
        if answer.status not in NOT_RUN:
            return f"{what}: {answer}"
    return None


def _check_content_type(probe: ServerProbe) -> str | None:
    body = b'{"request": {"tool_id": "' + UNKNOWN_TOOL.encode() + b'"}}'
    answer = probe.post(find_call_path(probe, "/call"), body, headers={"content-type": "text/plain"})
    return None if answer.status in (400, 415, 422) else f"text/plain: {answer}"


REFUSALS: Final = (
    Check("OTC-036", "The server has POST /call.", _check_path("/call")),
    Check("OXP-001", "The server has POST /tools/call.", _check_path("/tools/call")),
    Check("OTC-040", "A call of an unknown tool gets 400 or 422.", _check_unknown_tool),
    Check("OXP-008", "A call of an unknown tool gets 400 with a message.", _check_unknown_tool_status),
    Check("OTC-044", "A refusal contains its $schema.", _check_refusal_schema),
    Check("OXP-013", "An unknown major version of the standard gets 400.", _check_other_major),
    Check("OTC-025", "A malformed version in an id gets 400.", _check_malformed_versions),
    Check("OTC-043", "Unknown members are ignored.", _check_unknown_members),
    Check("OTC-040", "A body that is not a call gets 400 or 422.", _check_invalid_calls),
    Check("S-16", "No malformed body causes a 5xx.", _check_malformed_bodies),
    Check("A-29", "A body whose content type is not JSON is refused.", _check_content_type),
)


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
    Check("OXP-010", "GET /tools requires the key.", _check_list_key, needs_key=True),
    Check("OTC-042", "A call requires the key.", _check_call_key, needs_key=True),
    Check("OXP-010", "A wrong key gets 401.", _check_wrong_key, needs_key=True),
    Check("S-7", "A 401 has WWW-Authenticate.", _check_challenge, needs_key=True),
    Check("OXP-012", "A server without authentication ignores credentials.", _check_ignored_key),
)
