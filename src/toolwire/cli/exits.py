"""How a command ends: its exit code, and the one sentence that says why it could not go on."""

from __future__ import annotations

from typing import Final

from toolwire.core.codec import ConnectError
from toolwire.core.errors import DefinitionError, ToolwireError, UsageError
from toolwire.core.model import Kind, Problem

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
DENIED: Final = 3
NOT_FOUND: Final = 4
GOES_ON: Final = 5
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141

_CODES = {
    Kind.UNKNOWN_TOOL: USAGE,
    Kind.INVALID_ARGUMENTS: USAGE,
    Kind.MISSING_REQUIREMENTS: USAGE,
    Kind.DENIED: DENIED,
    Kind.UNCONFIRMED: DENIED,
    Kind.FORBIDDEN: DENIED,
    Kind.UNAUTHORIZED: DENIED,
    Kind.UNREACHABLE: NOT_FOUND,
    Kind.ACCEPTED: GOES_ON,
}


def choose_exit_code(error: ToolwireError) -> int:
    """Return the exit code of a command that ended with ``error``."""
    match error:
        case UsageError() | DefinitionError():
            return USAGE
        case ConnectError(kind=Kind.DENIED):
            return DENIED
        case ConnectError():
            return NOT_FOUND
        case _:
            return FAILED


def exit_code(problem: Problem) -> int:
    """Return the exit code of a call that ended with ``problem``."""
    return _CODES.get(problem.kind, FAILED)
