"""The command line: one file per command; each calls the library and prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolwire.core.lazy_import import explain_missing_module

from .interruption import end_on_interrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` (else the process's own arguments) names; return its exit code.

    With the process's own arguments, a tool that still runs in a thread ends with the process.
    """
    try:
        with end_on_interrupt():
            from . import program  # the code of the program loads within the block
        return program.main(argv)
    except ModuleNotFoundError as error:
        explained = explain_missing_module(error)
        if explained is error and "toolwire[" not in str(error):
            raise
        print(f"toolwire: {explained}", file=sys.stderr)
        return 2


__all__ = ["main"]
