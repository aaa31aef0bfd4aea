"""Say why a tool got no answer from the user of its caller, or that the user must be asked first."""
# MC-09

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

INPUT_REQUEST: Final = "input_request"
"""The member of a Problem's details that holds the question of a tool."""

REQUIRED_CAPABILITIES: Final = "required_capabilities"
"""The member of a Problem's details with what the caller's client must declare to be served, as MCP names it."""

_WHY: Final = {
    "declined": "the user declined",
    "cancelled": "the user left without an answer",
    "cannot_ask": "this caller cannot ask its user",
}


@dataclass(frozen=True, slots=True)
class NoUserInput:
    """Why a tool got no answer to ``question``: the user declined or cancelled, or cannot be asked.

    It is false in a condition.
    """

    reason: Literal["declined", "cancelled", "cannot_ask"]
    question: str

    @property
    def message(self) -> str:
        """One sentence for the caller. You can raise it as ``ToolError(answer.message)``."""
        return f"The question {self.question!r} was not answered: {_WHY[self.reason]}."

    def __bool__(self) -> Literal[False]:
        return False


class InputNeeded(BaseException):
    """Raised in a tool whose question has no answer yet: the call ends, and runs again with the answer.

    It is no ``Exception``, so that a tool which catches all of those does not catch it.
    """

    def __init__(self, key: str, name: str, message: str, schema: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.key = key
        self.name = name
        self.message = message
        self.schema = schema
