"""Asking the person at the terminal whether a call may be made.

Rules:
- Everything the call would do is shown before the question, and nothing of it is cut.
- Only ``y`` or ``yes`` is a yes; Enter is a no. Where nobody can be asked, nothing is allowed.
- ``--yes`` answers only what the site declares may be approved in advance.
"""

from __future__ import annotations

import sys
import termios
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from toolwire.core.check import Answer, Question
from toolwire.core.model import Cost, Tool

from .screen import complain, escaped, first_line, json_text, styled, warn

Asker: TypeAlias = Callable[[Question], Answer]
Advance: TypeAlias = Literal["ask", "yes"]
"""What the person said in advance: nothing, or ``--yes``."""


def asker(advance: Advance) -> Asker:
    """Return what answers the question of a call: the person, or ``--yes`` where the site lets it. [XL-049, XL-053]"""

    def ask(question: Question) -> Answer:
        if advance == "yes" and question.always_allowed is True:
            return Answer(allowed=True)
        if advance == "yes":
            warn(f"--yes does not approve this: {_why_not(question.call.tool)}.")
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            complain(f"{question.call.tool.name} needs your consent, and there is no terminal to ask at.")
            return Answer(allowed=False)
        return Answer(allowed=_answered(question))

    return ask


def shown(question: Question) -> Iterator[str]:
    """Return the lines that say what would be called: where, what, with which arguments, at what price. [D-21]"""
    tool = question.call.tool
    yield f"{_bold('May this be called?')} {escaped(question.site)}"
    yield f"  {escaped(tool.name)}: {first_line(tool.description)}"
    yield f"  {escaped(question.target)}"
    yield f"  {'arguments:' if question.call.arguments else 'no arguments'}"
    for name, value in question.call.arguments.items():
        yield f"    {escaped(name)} = {escaped(json_text(value))}"
    yield f"  destroys something: {'yes' if tool.destructive else 'no'}; costs: {tool.cost or 'not declared'}"
    for reason in question.reasons:
        yield f"  {escaped(reason)}"


def _answered(question: Question) -> bool:
    for line in shown(question):
        print(line, file=sys.stderr)
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before the question is no answer to it
    print(_bold("Call it? [y/N] "), end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")


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
