"""Ask the user at the terminal what a server wants to know while a call runs: a form, or a page to open.

Rules:
- The user sees who asks before anything else, and all that is sent before it is sent.
- A page opens only after a yes to its full URL.
- Without a terminal no user can be asked, and no server is told that one can.
"""
# MC-09

from __future__ import annotations

import sys

from toolwire.consent.input_display import NO_SECRETS, describe_asker, describe_field, describe_page, show_value
from toolwire.core.model import Json
from toolwire.core.user_input import (
    CANCELLED,
    DECLINED,
    InputAction,
    InputField,
    InputProvider,
    InputRequest,
    InputResponse,
)

from .prompt import YES, discard_input, is_terminal, read_line
from .screen import apply_style, escape_lines, escaped


def choose_input_provider(where: str = "terminal") -> InputProvider | None:
    """Return what asks the user: at the terminal or on a page. None without a terminal, or with a store."""
    if not is_terminal():
        return None
    if where == "page":
        from toolwire.client.approvers.browser_approver import page_input_provider  # imports a server

        return page_input_provider(_announce_page)
    return _ask if where == "terminal" else None


def _announce_page(url: str) -> None:
    import webbrowser  # only for this

    _print(f"Answer at {url}")
    webbrowser.open(url)


def _ask(asked: InputRequest) -> InputResponse:
    _print(apply_style(escaped(describe_asker(asked)), "bold", sys.stderr))
    if asked.message:
        _print("  The site's words:")
        for line in escape_lines(asked.message).split("\n"):
            _print(f"  | {line}")
    discard_input()  # what was typed before the question does not answer it
    try:
        return _ask_to_open(asked) if asked.url else _ask_for_form(asked)
    except EOFError:
        return CANCELLED


def _ask_to_open(asked: InputRequest) -> InputResponse:
    from toolwire.client.login.browser import open_page  # only for this

    _print(f"  Page: {escaped(asked.url)}")
    _print(f"  {describe_page(asked)}")
    if _prompt("Open it in your browser? [y/N] ").lower() not in YES:
        return DECLINED
    if not open_page(asked.url):
        _print("No browser was found. Open the page yourself.")
    left = _prompt("Press Enter when you are done there, or type n to cancel. ").lower()
    return CANCELLED if left in ("n", "no") else InputResponse(InputAction.ACCEPT)


def _ask_for_form(asked: InputRequest) -> InputResponse:
    _print(f"  {NO_SECRETS}")
    for one in asked.fields:
        _print(f"  {escaped(one.label)}: {describe_field(one)}")
    if _prompt("Answer it? [y/N] ").lower() not in YES:
        return DECLINED
    content = {one.name: one.default for one in asked.fields if one.default is not None}
    while True:
        for one in asked.fields:
            _ask_for_field(one, content)
        _print("This is sent:")
        for one in asked.fields:
            if one.name in content:
                _print(f"    {escaped(one.name)} = {show_value(content[one.name])}")
        reply = _prompt(f"Send it to {escaped(asked.site)}? [y/N, e to change it] ").lower()
        if reply not in ("e", "edit"):
            return InputResponse(InputAction.ACCEPT, content) if reply in YES else DECLINED


def _ask_for_field(one: InputField, content: dict[str, Json]) -> None:
    """Ask for one field until its value fits, and put that into ``content``. Enter keeps what is there."""
    if one.description:
        _print(f"  {escaped(one.description)}")
    for number, choice in enumerate(one.choices, 1):
        _print(f"    {number}. {escaped(choice.title)}")
    while True:
        now = f" [{show_value(content[one.name])}]" if one.name in content else ""
        text = _prompt(f"{escaped(one.label)}{now}: ")
        if not text and (one.name in content or not one.is_required):
            return
        value = one.parse(text)
        fault = one.find_fault(value) if text else "is required"
        if not fault:
            content[one.name] = value
            return
        _print(f"  {escaped(one.label)} {escaped(fault)}.")


def _prompt(text: str) -> str:
    """Return the line that the user types.

    Raises:
        EOFError: the input has ended.
    """
    print(apply_style(text, "bold", sys.stderr), end="", file=sys.stderr, flush=True)
    line = read_line()
    if not line:
        print(file=sys.stderr)
        raise EOFError
    return line.strip()


def _print(text: str) -> None:
    print(text, file=sys.stderr)
