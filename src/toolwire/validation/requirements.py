"""What a tool requires besides its arguments, as a check that stops a call which does not bring it."""

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.check import ALLOW, Deny, Verdict
from toolwire.core.model import Call, Context, Json, Kind, Problem, Tool


def requirements_check(call: Call) -> Verdict:
    """Refuse a call that lacks a token, a secret or the user id its tool requires, whatever the protocol. [OXP-011]"""
    if not call.tool.requirements:
        return ALLOW
    problem = missing(call.tool, call.context)
    return ALLOW if problem is None else Deny(problem)


def missing(tool: Tool, context: Context) -> Problem | None:
    """Return the Problem of a call that does not bring what ``tool`` requires, or None. [OXP-011, OTC-014]"""
    needs = tool.requirements
    tokens = [needed.id for needed in needs.authorization if needed.id not in context.tokens]
    secrets = [id_ for id_ in needs.secrets if id_ not in context.secrets]
    wants = [f"a token for {id_}" for id_ in tokens] + [f"the secret {id_}" for id_ in secrets]
    lacking: dict[str, Json] = {}
    if tokens:
        lacking["authorization"] = [_challenge(tool, id_) for id_ in tokens]
    if secrets:
        lacking["secrets"] = [{"id": id_} for id_ in secrets]
    if needs.user_id and context.user_id is None:
        lacking["user_id"] = True
        wants.append("a user_id")
    if not lacking:
        return None
    return Problem(
        kind=Kind.MISSING_REQUIREMENTS,
        message=f"{tool.name} needs {', '.join(wants)} in the context of the call.",
        details={"missing_requirements": lacking},
    )


def _challenge(tool: Tool, id_: str) -> dict[str, Json]:
    """Say where a person gets the token: what is in ``hints["otc"]["authorization"][id]``, else no page at all."""
    hint: Json = tool.hints
    for name in ("otc", "authorization", id_):
        hint = hint.get(name) if isinstance(hint, Mapping) else None
    pages = hint if isinstance(hint, Mapping) else {}
    return {
        "id": id_,
        "url": "",
        **{key: url for key in ("url", "check_url") if isinstance(url := pages.get(key), str)},
    }
