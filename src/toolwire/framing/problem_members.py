"""Write a problem as members of a JSON object, and read it back, in the spelling of a protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from toolwire.core.model import Json, Kind, Problem

from .jsontext import get_object
from .rate_headers import parse_wait_ms

MAX_TEXT = 4_000


class MemberNames(NamedTuple):
    """How a protocol spells the members whose names have several words."""

    can_retry: str
    retry_after_ms: str
    additional_prompt_content: str
    parameter_errors: str


SNAKE_CASE = MemberNames("can_retry", "retry_after_ms", "additional_prompt_content", "parameter_errors")
CAMEL_CASE = MemberNames("canRetry", "retryAfterMs", "additionalPromptContent", "parameterErrors")


def write(problem: Problem, names: MemberNames = SNAKE_CASE) -> dict[str, Json]:
    """Return the kind of ``problem`` and each other member that is not at its default, without its message."""
    # OTC-028..032
    members: dict[str, Json] = {"kind": problem.kind.value}
    if problem.can_retry:
        members[names.can_retry] = True
    if problem.retry_after_ms is not None:
        members[names.retry_after_ms] = problem.retry_after_ms
    if problem.additional_prompt_content:
        members[names.additional_prompt_content] = problem.additional_prompt_content
    if problem.parameter_errors:
        members[names.parameter_errors] = dict(problem.parameter_errors)
    if problem.details:
        members["details"] = dict(problem.details)
    return members


def read(members: Mapping[str, Json], kind: Kind, message: str, names: MemberNames = SNAKE_CASE) -> Problem:
    """Return the problem of ``kind`` and ``message`` with each other member that has the right type.

    Texts are cut after 4,000 characters: they come from another machine, and a model reads them.
    """
    more = members.get(names.additional_prompt_content)
    errors = get_object(members, names.parameter_errors)
    return Problem(
        kind=kind,
        message=message[:MAX_TEXT],
        can_retry=members.get(names.can_retry) is True,
        retry_after_ms=parse_wait_ms(members.get(names.retry_after_ms)),
        additional_prompt_content=more[:MAX_TEXT] if isinstance(more, str) and more else None,
        parameter_errors={name: text for name, text in errors.items() if isinstance(text, str)},
        details=get_object(members, "details"),
    )
