"""Asking the person at the terminal whether a call may be made.

Rules:
- Everything the call would do is shown before the question, and nothing of it is cut.
- Only ``y`` or ``yes`` is a yes; Enter is a no; what destroys something is allowed by typing its name and ``yes``.
  Where nobody
  can be asked, nothing is allowed.
- ``--yes`` answers only what the site declares may be approved in advance.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from toolwire.client import Session, stored_session
from toolwire.consent.display import DisplayRow, build_display_rows, confirmation_text, needs_typed_confirmation
from toolwire.core.check import Answer, Question
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Cost, Tool

from .keyboard import forget_typed, typed_line
from .screen import coloured, complain, escaped, styled, warn

Asker: TypeAlias = Callable[[Question], Answer]
Advance: TypeAlias = Literal["ask", "yes"]
"""What the person said in advance: nothing, or ``--yes``."""

_TITLE = "May this be called?"


def asker(advance: Advance) -> Asker:
    """Return what answers the question of a call: the person, or ``--yes`` where the site lets it. [XL-049, XL-053]"""

    def ask(question: Question) -> Answer:
        if advance == "yes" and question.always_allowed is True:
            return Answer(allowed=True, channel="--yes")
        if advance == "yes":
            warn(f"--yes does not approve this: {_why_not(question.call.tool)}.")
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            complain(f"{question.call.tool.name} needs your consent, and there is no terminal to ask at.")
            return Answer(allowed=False, channel="terminal")
        return _answered(question)

    return ask


def agreement(*, agreed: bool, called: str = "") -> Callable[[tuple[Tool, ...]], bool]:
    """Return what answers, on connecting, whether tools may run unasked by their site's word alone. [XL-044]

    ``agreed`` is ``--agree``. Otherwise the person at the terminal is shown the list, once: the answer is kept until a
    definition changes. With ``called``, the name of one tool, only where that tool is in the list.
    """

    def agree(tools: tuple[Tool, ...]) -> bool:
        if agreed:
            return True
        if called and all(called not in (tool.name, tool.id, tool.id.partition("@")[0]) for tool in tools):
            return False
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        for line in agreement_lines(tools):
            print(line, file=sys.stderr)
        forget_typed()
        return _typed("Let these run without a question? [y/N] ").lower() in ("y", "yes")

    return agree


def agreement_lines(tools: tuple[Tool, ...]) -> Iterator[str]:
    """Yield the list of tools that would run by their site's word alone, nothing cut."""
    yield "The site says that these need no question. Nothing but its word shows that they do no harm:"
    for tool in tools:
        said = "the site says that it only reads" if tool.claimed_safe else "changes something"
        again = ", may be sent twice" if tool.idempotent else ""
        yield f"  {escaped(tool.name)} ({said}{again}): {escaped(tool.description.strip().partition(chr(10))[0])}"


def chosen_asker(where: str, advance: Advance) -> Asker:
    """Return what asks at the terminal, on a page in the browser, or through the store that other processes answer."""
    if where == "terminal":
        return asker(advance)
    if where == "page":
        from toolwire.client.approvers.browser_approver import page_approver  # noqa: PLC0415 - brings a server nobody else needs

        return page_approver(_open_page)
    from toolwire.client.approvers.store_approver import queued  # noqa: PLC0415 - loads sqlite3
    from toolwire.stores.consent.approvals import Approvals  # noqa: PLC0415 - likewise
    from toolwire.stores.paths import state_folder  # noqa: PLC0415 - likewise

    approvals = Approvals(state_folder())
    complain("The question waits: answer it with `toolwire approvals`.")
    return queued(approvals)


def kept_session() -> Session:
    """Return the session of this user, whose grants and decisions are kept; in memory alone where they cannot be."""
    try:
        return stored_session()
    except DefinitionError as error:
        warn(f"Decisions are not kept: {error}")
        return Session()


def _open_page(url: str) -> None:
    import webbrowser  # noqa: PLC0415 - only for this

    print(f"Answer at {url}", file=sys.stderr, flush=True)
    webbrowser.open(url)


def asking_lines(rows: tuple[DisplayRow, ...]) -> Iterator[str]:
    """Yield ``rows`` as lines, nothing cut: where, what, with which arguments, at what price. [D-21]"""
    for row in rows:
        note = f"  ({row.note})" if row.note else ""
        if row.label == "site":
            yield f"{_TITLE} {row.text}{note}"
        elif row.kind == "argument":
            yield f"    {row.label} = {row.text}{note}"
        else:
            yield f"  {row.label}: {row.text}{note}"


def _answered(question: Question) -> Answer:
    _show(build_display_rows(question))
    forget_typed()  # what was typed before the question is no answer to it
    said = _typed(_prompt(question))
    if needs_typed_confirmation(question):
        return Answer(allowed=said == confirmation_text(question), channel="terminal")
    always = question.always_allowed and said.lower() in ("a", "always")
    return Answer(allowed=always or said.lower() in ("y", "yes"), always=always, channel="terminal")


def _prompt(question: Question) -> str:
    if needs_typed_confirmation(question):
        return f"Type {confirmation_text(question)} to call it: "
    return (
        "Call it, and do not ask again for this tool: a. Call it? [y/N] "
        if question.always_allowed
        else ("Call it? [y/N] ")
    )


def _typed(prompt: str) -> str:
    print(_bold(prompt), end="", file=sys.stderr, flush=True)
    answer = typed_line()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip()


def _show(rows: tuple[DisplayRow, ...]) -> None:
    """Print ``rows`` on standard error: by rich where it is installed and colours are wanted, else plain."""
    if coloured(sys.stderr):
        try:
            from rich.console import Console  # noqa: PLC0415 - 40 ms, and only the extra brings it
            from rich.text import Text  # noqa: PLC0415 - likewise
        except ImportError:
            pass
        else:
            console = Console(file=sys.stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)
            for row, line in zip(rows, asking_lines(rows), strict=True):
                text = Text(line, style="yellow" if row.kind == "warning" else "")  # Text: nothing in it is markup
                if line.startswith(_TITLE):
                    text.stylize("bold", 0, len(_TITLE))
                console.print(text)
            return
    for line in asking_lines(rows):
        print(line, file=sys.stderr)


def _why_not(tool: Tool) -> str:
    if not tool.blanket_allowed:
        return "the site does not say that it may be approved in advance"
    if tool.destructive:
        return "it destroys something"
    if tool.cost not in (None, Cost.FREE):
        return "it costs something"
    return "you asked for consent to each call"


def _bold(text: str) -> str:
    return styled(text, "bold", sys.stderr)
