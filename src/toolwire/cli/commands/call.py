"""``toolwire call``: call one tool, with the user's consent where it is needed."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolwire.cli.call_arguments import read_object, read_values
from toolwire.cli.exits import OK
from toolwire.cli.output_file import Output, OutputFile, find_output
from toolwire.cli.targets.context_options import read_context
from toolwire.cli.targets.open_target import OpenedTarget, open_target, read_client, read_reach
from toolwire.cli.terminal.call_result import print_call_result
from toolwire.cli.terminal.call_status_display import print_progress
from toolwire.cli.terminal.screen import escaped, json_text, print_error
from toolwire.cli.terminal.terminal_approver import build_agreement, choose_approver, open_session
from toolwire.cli.terminal.terminal_input import choose_input_provider
from toolwire.cli.terminal.terminal_user import build_terminal_user
from toolwire.client import SyncHandle
from toolwire.core.codec import ConnectError
from toolwire.core.errors import UsageError
from toolwire.core.model import Json, Kind, Problem, Result, Tool, Value
from toolwire.core.resources import COMPLETE_RESULTS
from toolwire.hosting.options import READING_S
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.targets.url_options import read_approval, read_lock_file

from .calls import wait_for_result


def run(arguments: argparse.Namespace) -> int:
    """Call the tool and print its result."""
    locked = read_lock_file(Path(arguments.file)) if arguments.locked else None
    reach = read_reach(
        arguments,
        locked=locked,
        agree=build_agreement(agreed=arguments.agree, called=arguments.name),
        sign_in=read_client(arguments),
        context=read_context(arguments),
        result_limits=COMPLETE_RESULTS,
        approval=read_approval(arguments.approval),
        timeout_s=arguments.timeout,
        discovery_s=min(arguments.timeout, READING_S),
    )
    ask = choose_approver(arguments.ask, "yes" if arguments.yes else "ask")
    given = _read_arguments(arguments.args)
    file = None if arguments.output is None else OutputFile(arguments.output, replace=arguments.force)
    if file is None and arguments.force:
        raise UsageError("--force needs --output FILE.")
    if arguments.start and not isinstance(read_target(arguments.target), UrlTarget):
        raise UsageError("--start needs a URL: a call of local code ends with this program.")
    if arguments.start and file is not None:
        raise UsageError("--start prints only an ID. Give --output to `toolwire calls wait` instead.")
    tool: Tool | None = None
    result: SyncHandle | Result
    output: Output | str = ""
    try:
        person = build_terminal_user(arguments.sign_in_at)
        with (
            open_session() as session,
            open_target(arguments.target, reach, ask, session, person, choose_input_provider(arguments.ask)) as source,
            _log_tools(arguments),
        ):
            tool, result = _call_tool(source, arguments, given)
            if isinstance(result, SyncHandle) and arguments.start:
                print(json_text({"ok": True, "call": result.id}, indent=2) if arguments.json else escaped(result.id))
                return OK
            if isinstance(result, SyncHandle):
                result = wait_for_result(result, arguments.target, timeout_s=arguments.timeout)
            if file is not None and isinstance(result, Value):
                output = find_output(result.value, source.resource)
    except ConnectError as error:
        kind = error.kind if error.kind is Kind.DENIED else Kind.UNREACHABLE
        result = Problem(kind=kind, message=str(error))
    if isinstance(result, Problem) and result.developer_message:  # a user who runs their own code is its developer
        print_error(f"For the developer: {result.developer_message}")
    return print_call_result(result, tool=tool, file=file, output=output, as_json=arguments.json)


def _call_tool(
    source: OpenedTarget, arguments: argparse.Namespace, given: dict[str, Json] | Problem
) -> tuple[Tool | None, SyncHandle | Result]:
    tool = source.find(arguments.name)
    if isinstance(tool, Problem):
        return None, tool
    values = given if isinstance(given, Problem) else read_values(arguments.values, given, tool)
    if isinstance(values, Problem):
        return tool, values
    # A call that goes on at its server is waited for here, so that a user who stops waiting learns its id.
    return tool, source.start(arguments.name, values, notify=print_progress)


def _read_arguments(text: str | None) -> dict[str, Json] | Problem:
    if text is None:
        return {}
    if text == "-":
        return read_object(sys.stdin.read())
    if not text.startswith("@"):
        return read_object(text)
    try:
        return read_object(Path(text[1:]).read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"Cannot read the arguments from {text[1:]}: {why}.") from error


@contextmanager
def _log_tools(arguments: argparse.Namespace) -> Generator[None, None, None]:
    """Print the traceback of a tool of the user's code only with --debug; logging would always print it."""
    log = logging.getLogger("toolwire")
    quiet = logging.NullHandler() if not arguments.debug else logging.StreamHandler()
    log.addHandler(quiet)
    try:
        yield
    finally:
        log.removeHandler(quiet)
