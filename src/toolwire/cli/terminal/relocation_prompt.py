"""Ask the user at the terminal whether a site may redirect the connection to another origin."""

from __future__ import annotations

import sys

from toolwire.consent.origin_display import display_origin, find_lookalike_warning

from .keyboard import discard_input, read_line
from .screen import apply_style, print_error


def confirm_relocation(here: str, there: str) -> bool:
    """Return whether the user allows ``there`` in the place of ``here``. Without a terminal the answer is no."""
    # XL-011
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        print_error(f"{display_origin(here)} sends on to {display_origin(there)}, and there is no terminal to ask at.")
        return False
    print(f"{display_origin(here)} sends on to {display_origin(there)}.", file=sys.stderr)
    if careful := find_lookalike_warning(there):
        print(f"  {careful}", file=sys.stderr)
    print("  Your key for the one, if you gave any, would go to the other.", file=sys.stderr)
    discard_input()  # what was typed before the question does not answer it
    print(apply_style("Connect to that one instead? [y/N] ", "bold", sys.stderr), end="", file=sys.stderr, flush=True)
    answer = read_line()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")
