"""Define the exceptions for misuse, and the one that tools raise. Expected failures are ``Problem`` values instead."""

from __future__ import annotations


class ToolwireError(Exception):
    """The base class of all exceptions that toolwire raises on purpose."""


class DefinitionError(ToolwireError):
    """A tool, toolkit or setting is not valid. The message names it and says what to change."""


class UsageError(ToolwireError):
    """What a user typed or wrote into a file, or what that points at, cannot be used. One sentence says why."""


class ToolError(ToolwireError):
    """Raise this in a tool to report why it failed.

    - ``message``: for the user and the model.
    - ``developer_message``: only for the log.
    - ``can_retry``, ``retry_after_ms``: whether and when the same call can succeed.
    - ``additional_prompt_content``: sent to the model with the message.
    """

    # OTC-028..032

    def __init__(
        self,
        message: str,
        *,
        developer_message: str | None = None,
        can_retry: bool = False,
        retry_after_ms: int | None = None,
        additional_prompt_content: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.developer_message = developer_message
        self.can_retry = can_retry
        self.retry_after_ms = retry_after_ms
        self.additional_prompt_content = additional_prompt_content
