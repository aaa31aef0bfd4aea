"""Read and write the context of a call: tokens, secrets, the user.

Rules:
- What a tool needs is looked for before anything runs.
- A caller sends to a tool what that tool's requirements name, and nothing else.
"""
# OXP-011, A-45, C-10

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.model import ANONYMOUS, Call, Context, Json, Kind, Problem, Secret
from toolwire.framing.jsontext import describe_type


def read(data: Json, call_id: str, trace_id: str) -> Context | Problem:
    """Return the context in ``data``, or a Problem that says which member has the wrong type."""
    # OTC-023
    if data is None:
        return Context(call_id=call_id, trace_id=trace_id) if trace_id else ANONYMOUS
    if not isinstance(data, dict):
        return _build_malformed("", f"an object, not {describe_type(data)}")
    tokens = _read_secrets(data, "authorization", "token")
    if isinstance(tokens, Problem):
        return tokens
    secrets = _read_secrets(data, "secrets", "value")
    if isinstance(secrets, Problem):
        return secrets
    user_id, user_info = data.get("user_id"), data.get("user_info")
    if not isinstance(user_id, str | None) or not isinstance(user_info, dict | None):
        return _build_malformed("", 'an object with "user_id" a string and "user_info" an object')
    return Context(
        call_id=call_id,
        trace_id=trace_id,
        tokens=tokens,
        secrets=secrets,
        user_id=user_id or None,
        user_info=user_info or {},
    )


def write(call: Call) -> dict[str, Json]:
    """Return the context of ``call`` as far as its tool asks for it."""
    # OTC-015, OXP-014
    needs, has = call.tool.requirements, call.context
    data: dict[str, Json] = {}
    tokens = [needed.id for needed in needs.authorization if needed.id in has.tokens]
    secrets = [id_ for id_ in needs.secrets if id_ in has.secrets]
    if tokens:
        data["authorization"] = [{"id": id_, "token": has.tokens[id_].reveal()} for id_ in tokens]
    if secrets:
        data["secrets"] = [{"id": id_, "value": has.secrets[id_].reveal()} for id_ in secrets]
    if needs.user_id and has.user_id is not None:
        data["user_id"] = has.user_id
        if has.user_info:  # I-30
            data["user_info"] = dict(has.user_info)
    return data


def _read_secrets(context: Mapping[str, Json], name: str, holder: str) -> dict[str, Secret] | Problem:
    """Return the secrets under ``name``: a list of ``{"id", holder}``, or a map of id to text."""
    #
    given = context.get(name)
    entries: list[tuple[Json, Json]] = [(None, None)]
    if isinstance(given, dict | None):
        entries = list((given or {}).items())
    elif isinstance(given, list):
        entries = [(entry.get("id"), entry.get(holder)) if isinstance(entry, dict) else (None, None) for entry in given]
    found: dict[str, Secret] = {}
    for id_, text in entries:
        if not isinstance(id_, str) or not isinstance(text, str):
            return _build_malformed(f".{name}", f'a list of {{"id": "...", "{holder}": "..."}}')
        if text:
            found[id_] = Secret(text)
    return found


def _build_malformed(where: str, what: str) -> Problem:
    return Problem(kind=Kind.MALFORMED, message=f'This is not a tool call: "request.context{where}" must be {what}.')
