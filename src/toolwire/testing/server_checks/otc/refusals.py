"""The checks of what a server of Open Tool Calling does not run: unknown tools, and bodies that are no call."""

from __future__ import annotations

from typing import Final

from toolwire.testing.server_checks.check import Check, Look, Skip
from toolwire.testing.server_checks.probe import ServerProbe

from .send_call import NOBODY, NOT_RUN, call, served, tools_of

_ODD: Final = (
    ("no JSON", b"{not json"),
    ("NaN", b'{"request": {"tool_id": "x", "input": {"a": NaN}}}'),
    ("bytes that are not UTF-8", b'{"request": {"tool_id": "\xff"}}'),
    ("a list", b"[]"),
    ("nothing", b""),
    ("200,000 brackets", b"[" * 200_000),
    ("a tool_id that is a number", b'{"request": {"tool_id": 7}}'),
    ("an input that is a list", b'{"request": {"tool_id": "x", "input": []}}'),
)


def _path(path: str) -> Look:
    def look(ask: ServerProbe) -> str | Skip | None:
        if path == "/tools/call" and "items" not in ask.get("/tools").members:
            return Skip('it lists no "items", as OXP does')
        return None if served(ask, path) == path else f"POST {path}: {ask.post(path, {})}"

    return look


def _unknown_tool(ask: ServerProbe) -> str | None:
    answer = call(ask, {"tool_id": NOBODY, "input": {}})
    return None if answer.status in NOT_RUN else f"a tool that is not there: {answer}"


def _unknown_is_400(ask: ServerProbe) -> str | None:
    answer = call(ask, {"tool_id": NOBODY, "input": {}})
    text = answer.members.get("message")
    if answer.status != 400:
        return f"a tool that is not there: {answer}"
    return None if isinstance(text, str) and text else f'there is no "message": {answer}'


def _refusal_says_version(ask: ServerProbe) -> str | None:
    answer = call(ask, {"tool_id": NOBODY})
    return None if isinstance(answer.members.get("$schema"), str) else f"a refusal: {answer}"


def _other_major(ask: ServerProbe) -> str | None:
    answer = call(ask, {"tool_id": NOBODY}, beside={"$schema": "urn:oxp:99.0"})
    return None if answer.status == 400 else f'"$schema": "urn:oxp:99.0": {answer}'


def _malformed_versions(ask: ServerProbe) -> str | Skip | None:
    tools = tools_of(ask)
    if not tools:
        return Skip("it lists no tools")
    name = str(tools[0].get("id") or tools[0].get("name")).partition("@")[0]
    for version in ("x", "-1", "1.0", "v1"):
        answer = call(ask, {"tool_id": f"{name}@{version}", "input": {"": ""}})
        if answer.status != 400:
            return f"{name}@{version}: {answer}"
    return None


def _unknown_members(ask: ServerProbe) -> str | None:
    plain = call(ask, {"tool_id": NOBODY})
    more = call(ask, {"tool_id": NOBODY, "x-more": 1}, beside={"x-more": {}})
    return None if plain.status == more.status else f"with members nobody knows: {more}; without: {plain}"


def _odd_bodies(ask: ServerProbe) -> str | None:
    for what, body in _ODD:
        answer = ask.post(served(ask, "/call"), body)
        if not 400 <= answer.status < 500:
            return f"{what}: {answer}"
    return None


def _odd_before_start(ask: ServerProbe) -> str | None:
    for what, body in (_ODD[0], *_ODD[3:5]):
        answer = ask.post(served(ask, "/call"), body)
        if answer.status not in NOT_RUN:
            return f"{what}: {answer}"
    return None


def _wants_json(ask: ServerProbe) -> str | None:
    body = b'{"request": {"tool_id": "' + NOBODY.encode() + b'"}}'
    answer = ask.post(served(ask, "/call"), body, headers={"content-type": "text/plain"})
    return None if answer.status in (400, 415, 422) else f"text/plain: {answer}"


REFUSALS: Final = (
    Check("OTC-036", "POST /call is served.", _path("/call")),
    Check("OXP-001", "POST /tools/call is served.", _path("/tools/call")),
    Check("OTC-040", "A call of an unknown tool is answered 400 or 422.", _unknown_tool),
    Check("OXP-008", "A call of an unknown tool is answered 400 with a message.", _unknown_is_400),
    Check("OTC-044", "A refusal says its $schema.", _refusal_says_version),
    Check("OXP-013", "Another major version of the standard is answered 400.", _other_major),
    Check("OTC-025", "A malformed version in an id is answered 400.", _malformed_versions),
    Check("OTC-043", "Members nobody knows change nothing.", _unknown_members),
    Check("OTC-040", "A body that is no call is answered 400 or 422.", _odd_before_start),
    Check("S-16", "No body, however odd, makes it fail.", _odd_bodies),
    Check("A-29", "A body that is not sent as JSON is refused.", _wants_json),
)
