"""Read the command line, run the command, and end with its exit code."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from traceback import format_exception

from toolwire import __version__
from toolwire.core.codec import ConnectError
from toolwire.core.errors import ToolwireError, UsageError
from toolwire.core.url_display import show_urls

from .exits import DENIED, FAILED, INTERRUPTED, NOT_FOUND, PIPE_CLOSED, USAGE, choose_exit_code
from .interruption import end_on_interrupt
from .parser import WITH_SETTINGS, CommandLineError, read_command
from .terminal.screen import drop_unwritable, escape_lines, json_text, open_closed_streams, print_error

_UNWRITABLE = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Errors of writing to a stream. (An error of opening a file has a file name, and is none of these.)"""


_OF_A_PATH = frozenset(
    {
        *(errno.ENAMETOOLONG, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM),
        *(errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENODEV, errno.ENXIO, errno.EINVAL),
    }
)
"""Errors about a path that the user named, or the place where it leads."""
_MAX_PATH_LENGTH = 100

_KINDS = {USAGE: "usage", DENIED: "denied", NOT_FOUND: "unreachable", FAILED: "failed"}
"""The kind of failure that ``--json`` prints, by exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` (else the process's own arguments) names; return its exit code.

    With the process's own arguments, a tool that still runs in a thread ends with the process.
    """
    code = _main(argv)
    threads = sys.modules.get("toolwire.server.run.worker_threads")  # imported only where tools run in this process
    if argv is None and threads is not None and threads.is_any_running():
        # A thread that uses standard output while the interpreter is taken down would abort the process.
        sys.stderr.flush()
        if (programs := sys.modules.get("toolwire.client.transport.server_program")) is not None:
            programs.end_programs()
        os._exit(code)
    return code


def _main(argv: Sequence[str] | None) -> int:
    is_closed = open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # never fail on a character that the terminal lacks
    try:
        code = _read_and_run(argv, is_closed=is_closed)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
        drop_unwritable(sys.stdout)
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        for stream in (sys.stdout, sys.stderr):
            drop_unwritable(stream)
        if isinstance(error, BrokenPipeError):  # the reader of our output has ended
            return PIPE_CLOSED
        print_error(f"Cannot write the output: {error.strerror}.")
        return FAILED
    drop_unwritable(sys.stderr)
    return code


def _read_and_run(argv: Sequence[str] | None, *, is_closed: bool) -> int:
    try:
        arguments = read_command(argv, __version__)
    except CommandLineError as error:
        if "--json" in (sys.argv[1:] if argv is None else argv):
            _print_failure(_KINDS[USAGE], error.sentence)
        return USAGE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else USAGE
    if is_closed and arguments.command != "serve":  # before anything is done whose result could not be printed
        print_error("Standard output is closed. Redirect it to a file or to /dev/null.")
        return FAILED
    return _run_command(arguments, sys.argv[1:] if argv is None else argv)


def _run_command(arguments: argparse.Namespace, argv: Sequence[str]) -> int:
    try:
        if arguments.command in WITH_SETTINGS:
            with end_on_interrupt():
                from .settings import apply_settings  # what needs no settings starts faster without

            apply_settings(arguments, argv)
        # Each command is imported only when it runs, so that --help stays fast.
        with end_on_interrupt():
            command = import_module(f"{__package__}.commands.{arguments.command}")
        code: int = command.run(arguments)
    except ToolwireError as error:
        return _fail(error, arguments)
    except (OSError, RuntimeError) as error:
        sentence = _explain_path(error)
        if not sentence:
            raise
        return _fail(UsageError(sentence), arguments, error)
    return code


def _fail(error: ToolwireError, arguments: argparse.Namespace, cause: Exception | None = None) -> int:
    """Print why the command could not go on, and return its exit code."""
    if arguments.debug:
        sys.stderr.write(escape_lines("".join(format_exception(cause or error.__cause__ or error))))
    print_error(str(error))
    exit_code = choose_exit_code(error)
    if getattr(arguments, "json", False):  # a script that asked for JSON reads why in JSON too
        kind = (error.kind if isinstance(error, ConnectError) else None) or _KINDS[exit_code]
        _print_failure(kind, show_urls(str(error)))
    return exit_code


def _explain_path(error: OSError | RuntimeError) -> str:
    """Return why a path that the user named cannot be used, or ``""`` if ``error`` says nothing about one.

    A command explains its own files better. This is for a path that already fails where it is only looked at.
    """
    # CL-02
    if isinstance(error, RuntimeError):  # the way in which CPython below 3.13 tells of a link to itself
        text = str(error)
        return f"{text[0].lower()}{text[1:]}: name another file." if text.startswith("Symlink loop") else ""
    if type(error) is ConnectionError:  # a store that could be opened and fails now, such as on a full disk
        return f"{error}."
    if error.filename is None or error.errno not in _OF_A_PATH:
        return ""
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
    shown = name if len(name) <= _MAX_PATH_LENGTH else f"{name[:_MAX_PATH_LENGTH]}..."
    return f"{shown} cannot be used: {error.strerror}."


def _print_failure(kind: str, sentence: str) -> None:
    print(json_text({"ok": False, "kind": kind, "message": sentence}, indent=2))
