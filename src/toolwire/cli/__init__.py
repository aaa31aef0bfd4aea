"""The command line: one file per command; each calls the library and prints."""

from .program import main

__all__ = ["main"]
