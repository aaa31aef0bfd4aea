"""Define the exceptions of the OpenTool SDKs: five that a client raises, three that a tool raises, one base.

Their names, codes and texts are the specification's, so each keeps ``Exception`` in its name and has both ``to_json``
and ``toJson``.
"""
# OTRPC-022..028

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.errors import ToolwireError
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext


class OpenToolException(ToolwireError):  # the ending of all names here is the specification's
    """The base class of failures between an OpenTool client and a tool. ``code`` can be None."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def to_json(self) -> dict[str, Json]:
        """Return ``{"code", "message"}``, or ``{"message"}`` alone where there is no code."""
        # OTRPC-027
        return {"message": self.message} if self.code is None else {"code": self.code, "message": self.message}

    toJson = to_json


class ResponseNullException(OpenToolException):
    """The answer is empty. ``code`` is its HTTP status."""

    # OTRPC-022, A-26

    def __init__(self, code: int = 500) -> None:
        super().__init__("Response is null", code)


class ErrorNullException(OpenToolException):
    """The answer has neither a result nor an error. ``code`` is its HTTP status."""

    # OTRPC-023, A-26

    def __init__(self, code: int = 500) -> None:
        super().__init__("Error is null", code)


class OpenToolServerUnauthorizedException(OpenToolException):
    """The server requires an API key, or does not accept this one."""

    # OTRPC-024

    def __init__(self) -> None:
        super().__init__("Please check API Key is VALID or NOT", 401)


class OpenToolServerNoAccessException(OpenToolException):
    """Nothing was sent, or no OpenTool server answers at the URL."""

    # OTRPC-025

    def __init__(self) -> None:
        super().__init__("Please check OpenTool Server is RUNNING or NOT", 404)


class OpenToolServerCallException(OpenToolException):
    """The call failed. ``problem`` can have more details than the message."""

    # OTRPC-026

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class FunctionNotSupportedException(OpenToolException):
    """Raise this in a tool if it does not have the function."""

    def __init__(self, function_name: str) -> None:
        super().__init__(f"Function Not Supported: {function_name}", 405)


class InvalidArgumentsException(OpenToolException):
    """Raise this in a tool if arguments are not valid. Pass the arguments, or a sentence that says why."""

    def __init__(self, arguments: Mapping[str, Json] | str | None = None) -> None:
        message = arguments if isinstance(arguments, str) else f"Invalid Arguments: {_write_arguments(arguments)}"
        super().__init__(message, 400)


class ToolBreakException(OpenToolException):
    """Raise this in a tool if it cannot continue. The message is for the user and the model."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or "Tool break exception", 500)


def _write_arguments(arguments: Mapping[str, Json] | None) -> str:
    try:
        return jsontext.write(arguments and dict(arguments)).decode()
    except (TypeError, ValueError):
        return "they are not JSON data"
