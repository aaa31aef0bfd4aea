"""Ask the user at the terminal whether a call may be made.

Rules:
- The question shows everything that the call would do, and cuts nothing.
- Only ``y`` or ``yes`` is a yes; Enter is a no. A call that destroys something needs its name and ``yes``.
  Without a terminal, every answer is no.
- ``--yes`` answers only for tools that the site declares may be approved in advance.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from toolwire.client import Session, open_stored_session
from toolwire.client.calls.agreements import UntrustedTools
from toolwire.consent.display import ACTION, DisplayRow, build_display_rows, confirmation_text, needs_typed_confirmation
from toolwire.consent.grant import GRANT_LIFETIME
from toolwire.consent.policy import explain_unkept
from toolwire.consent.tool_facts import list_ways_out
from toolwire.core.check import Answer, Question
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Cost, Tool

from .bounds_prompt import ask_bounds
from .prompt import YES, confirm, discard_input, is_terminal, read_answer
from .screen import apply_style, escaped, has_colours, print_error, print_warning

Approver: TypeAlias = Callable[[Question], Answer]
Advance: TypeAlias = Literal["ask", "yes"]
"""The user's answer in advance: none, or ``--yes``."""

_TITLE = "Allow this call?"


def build_terminal_approver(advance: Advance) -> Approver:
    """Return the approver at the terminal: it asks the user, or takes ``--yes`` where the site allows it."""
    # XL-049, XL-053

    def ask(question: Question) -> Answer:
        if advance == "yes" and question.always_allowed is True:
            return Answer(allowed=True, channel="--yes")
        if advance == "yes":
            print_warning(f"--yes does not cover this call: {_explain_refusal(question)}")
        if not is_terminal():
            tool, why = question.call.tool, " ".join(("", *question.reasons))
            how = " --agree trusts the tools that this server calls read-only." if tool.claimed_safe else ""
            ask = "Use --ask page to answer in a browser, or --ask store to answer with `toolwire approvals`."
            print_error(f"{tool.name} needs your consent, and there is no terminal to ask you. {ask}{how}{why}")
            return Answer(allowed=False, channel="terminal")
        return _ask(question)

    return ask


def build_agreement(*, agreed: bool, called: str = "") -> Callable[[tuple[Tool, ...]], bool]:
    """Return a function that decides whether tools may run without a question by their site's claim alone.

    ``agreed`` is ``--agree``. Otherwise the user at the terminal sees the list, once: the answer is kept until a
    definition changes. With ``called``, the name of one tool, the user is asked only if that tool is in the list.
    """
    # XL-044

    def agree(tools: tuple[Tool, ...]) -> bool:
        if agreed:
            return True
        if called and all(called not in (tool.name, tool.id, tool.id.partition("@")[0]) for tool in tools):
            return False
        if not is_terminal():
            return False
        for line in list_agreement(tools):
            print(line, file=sys.stderr)
        return confirm("Let these run without a question? [y/N] ")

    return agree


def list_agreement(tools: tuple[Tool, ...]) -> Iterator[str]:
    """Yield the lines of the list of tools that would run by their site's claim alone; nothing is cut."""
    changes = tools.changes if isinstance(tools, UntrustedTools) else {}
    yield "The site says that these need no question. Nothing but its word shows that they do no harm:"
    for tool in tools:
        does = "the site says that it only reads" if tool.claimed_safe else "changes something"
        again = ", may be sent twice" if tool.idempotent else ""
        # I-21: a read can carry data out.
        out = "".join(f", {one}" for one in list_ways_out(tool))
        yield f"  {escaped(tool.name)} ({does}{again}{out}): {escaped(tool.description.strip().partition(chr(10))[0])}"
        for change in changes.get(tool.id, ()):  # QF-01
            yield f"    changed since you trusted or approved it: {escaped(change)}"


def choose_approver(where: str, advance: Advance) -> Approver:
    """Return the approver: at the terminal, on a page in the browser, or in a store that other processes answer."""
    if where == "terminal":
        return build_terminal_approver(advance)
    if where == "page":
        from toolwire.client.approvers.browser_approver import page_approver  # imports a server, which only this needs

        return page_approver(_open_page)
    from toolwire.client.approvers.store_approver import store_approver  # loads sqlite3
    from toolwire.stores.consent.open import open_approvals  # likewise
    from toolwire.stores.paths import find_decisions_place  # likewise

    approvals = open_approvals(find_decisions_place())
    print_error("The question is pending. Answer it with `toolwire approvals`.")
    return store_approver(approvals)


def open_session() -> Session:
    """Return the user's session with its stored grants and decisions, or one in memory where none can be stored."""
    try:
        return open_stored_session()
    except DefinitionError as error:
        print_warning(f"Decisions are not kept: {error}")
        return Session()


def _open_page(url: str) -> None:
    import webbrowser  # only for this

    print(f"Answer at {url}", file=sys.stderr, flush=True)
    webbrowser.open(url)


def list_question(rows: tuple[DisplayRow, ...]) -> Iterator[str]:
    """Yield the question as lines: site, tool, arguments and cost; nothing is cut."""
    # D-21
    for row in rows:
        note = f"  ({row.note})" if row.note else ""
        if row.label == ACTION:
            yield row.text
        elif row.label == "site":
            yield f"{_TITLE} {row.text}{note}"
        elif row.kind == "argument":
            yield f"    {row.label} = {row.text}{note}"
        else:
            yield f"  {row.label}: {row.text}{note}"


def _ask(question: Question) -> Answer:
    _print_question(build_display_rows(question))
    discard_input()  # what was typed before the question does not answer it
    reply = read_answer(_build_prompt(question))
    if needs_typed_confirmation(question):
        return Answer(allowed=reply == confirmation_text(question), channel="terminal")
    bounds, is_bounded = None, question.always_allowed is not False and reply.lower() in ("b", "bounds")
    if is_bounded and (bounds := ask_bounds(question, read_answer)) is None:
        return Answer(allowed=False, channel="terminal")
    always = is_bounded or (question.always_allowed is not False and reply.lower() in ("a", "always"))
    if always and (fault := explain_unkept(bounds, always_allowed=question.always_allowed)):  # QF-03
        print_error(fault)
        return Answer(allowed=False, channel="terminal")
    return Answer(allowed=always or reply.lower() in YES, always=always, bounds=bounds, channel="terminal")


def _build_prompt(question: Question) -> str:
    if needs_typed_confirmation(question):
        return f"Type {confirmation_text(question)} to call it: "
    later = {
        True: f"Call it, and do not ask again for this tool for {GRANT_LIFETIME}: a, or only within bounds: b. ",
        None: f"Call it, and do not ask again within bounds, for {GRANT_LIFETIME} at most: b. ",
        False: "",
    }
    return f"{later[question.always_allowed]}Call it? [y/N] "


def _print_question(rows: tuple[DisplayRow, ...]) -> None:
    """Print ``rows`` on standard error: with rich where it is installed and the terminal has colours, else plain."""
    if has_colours(sys.stderr):
        try:
            from rich.console import Console  # 40 ms, and only the extra brings it
            from rich.text import Text  # likewise
        except ImportError:
            pass
        else:
            console = Console(file=sys.stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)
            for row, line in zip(rows, list_question(rows), strict=True):
                text = Text(line, style="yellow" if row.kind == "warning" else "")  # Text: nothing in it is markup
                if row.label == ACTION:
                    text.stylize("bold")
                console.print(text)
            return
    for row, line in zip(rows, list_question(rows), strict=True):
        print(apply_style(line, "bold", sys.stderr) if row.label == ACTION else line, file=sys.stderr)


def _explain_refusal(question: Question) -> str:
    tool = question.call.tool
    if not tool.blanket_allowed:
        return "its server does not allow approval in advance."
    if tool.destructive:
        return "it destroys something."
    if tool.cost not in (None, Cost.FREE):
        return "it costs something."
    return " ".join(question.reasons) or "you asked for consent to each call."
