"""Read what a server asks the user while a call runs, and write what the user answered, in the words of MCP.

Rules:
- Everything in a question is the server's: its words are cleaned, and a form that is not flat is refused whole.
- A page is at http or https; its URL has no user name and no character that could mislead.
"""
# MC-09

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from toolwire.core.model import Json
from toolwire.core.url_origin import read_origin
from toolwire.core.user_input import InputAction, InputRequest, InputResponse

from .form_schema import FormError, read_fields, read_words

MAX_MESSAGE: Final = 4_000
MAX_URL: Final = 2_000


def _keep(response: InputResponse) -> InputResponse:
    return response


def write_input_response(response: InputResponse) -> dict[str, Json]:
    """Return ``response`` in the words of the protocol."""
    if response.action is InputAction.ACCEPT and response.content is not None:
        return {"action": "accept", "content": dict(response.content)}
    return {"action": response.action.value}


def read_input_request(params: Mapping[str, Json], respond: Callable[[InputResponse], Any] = _keep) -> InputRequest:
    """Return the question that the parameters of ``elicitation/create`` describe.

    Raises:
        FormError: it cannot be asked; the text is the end of a sentence about it.
    """
    message, mode = read_words(params.get("message"), MAX_MESSAGE), params.get("mode", "form")
    if mode == "form":
        fields = read_fields(params.get("requestedSchema"))
        return InputRequest(message=message, fields=fields, respond=respond)
    if mode != "url":
        raise FormError("it is neither a form nor a page")
    url = params.get("url")
    origin = read_origin(url) if isinstance(url, str) else None
    if not isinstance(url, str) or origin is None or origin.has_user_info or len(url) > MAX_URL:
        raise FormError("its page address cannot be shown plainly")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise FormError("its page address contains characters that are not valid in a URL")
    url = f"{origin.scheme}{url[len(origin.scheme) :]}"
    return InputRequest(message=message, url=url, host=origin.authority, respond=respond)
