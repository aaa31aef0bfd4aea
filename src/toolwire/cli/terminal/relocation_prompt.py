"""Asking the person at the terminal whether a site may send on to another origin."""

from __future__ import annotations

import sys

from toolwire.consent.origin_display import display_origin, find_lookalike_warning

from .keyboard import forget_typed, typed_line
from .screen import complain, styled


def moving(here: str, there: str) -> bool:
    """Return whether the person lets ``there`` take the place of ``here``; nobody at a terminal is a no. [XL-011]"""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        complain(f"{display_origin(here)} sends on to {display_origin(there)}, and there is no terminal to ask at.")
        return False
    print(f"{display_origin(here)} sends on to {display_origin(there)}.", file=sys.stderr)
    if careful := find_lookalike_warning(there):
        print(f"  {careful}", file=sys.stderr)
    print("  Your key for the one, if you gave any, would go to the other.", file=sys.stderr)
    forget_typed()  # what was typed before the question is no answer to it
    print(styled("Connect to that one instead? [y/N] ", "bold", sys.stderr), end="", file=sys.stderr, flush=True)
    answer = typed_line()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")
