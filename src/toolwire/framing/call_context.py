"""Read and write the context of a call, which are tokens, secrets and the user, and the requirements of its tool.

Rules:
- The context has the form of Open Tool Calling. MCP sends it in ``_meta``, and OpenAPI and OpenTool in a header field,
  as base64url.
- What a tool needs is looked for before anything runs.
- A caller sends to a tool what that tool's requirements name, and nothing else.
"""
# OXP-011, A-45, C-10, I-27

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import Final

from toolwire.core.http import Headers, Request, get_header
from toolwire.core.model import (
    ANONYMOUS,
    NO_REQUIREMENTS,
    Authorization,
    Call,
    Context,
    Json,
    Kind,
    Problem,
    Requirements,
    Secret,
    Tool,
)

from . import jsontext
from .jsontext import describe_type, get_object, get_text, list_texts

FIELD: Final = b"toolwire-context"
"""The header field of a call over OpenAPI or OpenTool."""
META: Final = "toolwire/context"
"""The member of ``_meta`` of a call over MCP."""


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


def write_field(call: Call) -> Headers:
    """Return the header field with the context of ``call`` as far as its tool asks for it; nothing without any."""
    data = write(call) if call.tool.requirements else None
    return ((FIELD, urlsafe_b64encode(jsontext.write(data))),) if data else ()


def read_field(request: Request, tool: Tool) -> Context | Problem:
    """Return the context in the header of a call of ``tool``, or a Problem that says why it cannot be read."""
    text = get_header(request.headers, FIELD) if tool.requirements else ""
    if not text:
        return ANONYMOUS
    try:
        data = jsontext.read(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error):
        data = Problem(kind=Kind.MALFORMED, message="")
    context = data if isinstance(data, Problem) else read(data, request.id, "")
    if isinstance(context, Problem):
        message = "Cannot read the header Toolwire-Context. Send the call's context as base64url-encoded JSON."
        return Problem(kind=Kind.MALFORMED, message=message)
    return context


def list_credentials(call: Call) -> tuple[Secret, ...]:
    """Return the tokens and secrets that ``call`` brings, which are removed from whatever comes back."""
    return (*call.context.tokens.values(), *call.context.secrets.values()) if call.tool.requirements else ()


def write_requirements(needs: Requirements) -> dict[str, Json]:
    """Return ``needs`` in the form of Open Tool Calling."""
    data: dict[str, Json] = {}
    if needs.authorization:
        data["authorization"] = [
            {"id": needed.id, "oauth2": {"scopes": list(needed.scopes)}} if needed.scopes else {"id": needed.id}
            for needed in needs.authorization
        ]
    if needs.secrets:
        data["secrets"] = [{"id": id_} for id_ in needs.secrets]
    if needs.user_id:
        data["user_id"] = True
    return data


def read_requirements(data: Json) -> Requirements:
    """Return the requirements in ``data``; what has another form is left out."""
    if not isinstance(data, dict):
        return NO_REQUIREMENTS
    needs = Requirements(
        authorization=tuple(
            Authorization(id=id_, scopes=tuple(list_texts(get_object(entry, "oauth2").get("scopes"))))
            for id_, entry in _iterate_identified(data.get("authorization"))
        ),
        secrets=tuple(id_ for id_, _ in _iterate_identified(data.get("secrets"))),
        user_id=data.get("user_id") is True,
    )
    return needs or NO_REQUIREMENTS


def _iterate_identified(entries: Json) -> Iterator[tuple[str, Mapping[str, Json]]]:
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and (id_ := get_text(entry, "id")):
            yield id_, entry


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
