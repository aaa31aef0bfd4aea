"""The program: reads the command line, runs the command, and ends with its exit code."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from traceback import format_exception

from toolwire import __version__
from toolwire.core.errors import ConnectError, DefinitionError, ToolwireError

from .exits import FAILED, INTERRUPTED, NOT_FOUND, PIPE_CLOSED, USAGE, UsageError
from .parser import read_command
from .screen import complain, escaped_lines


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` (else the process's own arguments) names; return its exit code.

    With the process's own arguments, a tool that still runs in a thread ends with the process.
    """
    code = _main(argv)
    threads = sys.modules.get("toolwire.server.threads")  # imported only where tools run in this process
    if argv is None and threads is not None and threads.is_any_running():
        # A thread that uses standard output while the interpreter is taken down would abort the process.
        sys.stderr.flush()
        os._exit(code)
    return code


def _main(argv: Sequence[str] | None) -> int:
    try:
        arguments = read_command(argv, __version__)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else USAGE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character the terminal lacks is no reason to fail
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; what is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def _run(arguments: argparse.Namespace) -> int:
    try:
        # A command's file imports all it needs, so that --help imports nothing of it.
        code: int = import_module(f".{arguments.command}", __package__).run(arguments)
    except ToolwireError as error:
        if arguments.debug:
            sys.stderr.write(escaped_lines("".join(format_exception(error.__cause__ or error))))
        complain(str(error))
        return _code(error)
    return code


def _code(error: ToolwireError) -> int:
    match error:
        case UsageError() | DefinitionError():
            return USAGE
        case ConnectError():
            return NOT_FOUND
        case _:
            return FAILED
