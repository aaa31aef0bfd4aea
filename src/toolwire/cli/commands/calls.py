"""``toolwire calls``: list the long calls of a server, read one, wait for its result, or cancel it."""
# LC-05

from __future__ import annotations

import argparse
from typing import Any

from toolwire.cli.exits import OK
from toolwire.cli.output_file import Output, OutputFile, find_output
from toolwire.cli.targets.open_target import open_target, read_client, read_reach
from toolwire.cli.terminal.call_result import print_call_result
from toolwire.cli.terminal.call_status_display import print_continuation, print_progress, print_status, print_statuses
from toolwire.cli.terminal.screen import json_text
from toolwire.cli.terminal.terminal_approver import build_terminal_approver
from toolwire.cli.terminal.terminal_input import choose_input_provider
from toolwire.cli.terminal.terminal_user import build_terminal_user
from toolwire.client import Selection, SyncHandle
from toolwire.client.calls.long_calls import find_call_id
from toolwire.core.call_status import CallPage, CallStatus
from toolwire.core.errors import UsageError
from toolwire.core.model import Problem, Result, Value
from toolwire.core.resources import COMPLETE_RESULTS
from toolwire.framing.call_document import write_status
from toolwire.hosting.options import READING_S, TOTAL_S
from toolwire.hosting.targets.target import UrlTarget, read_target

_PAGE = 100


def run(arguments: argparse.Namespace) -> int:
    """Do what the action says, and print what came of it."""
    _check(arguments)
    file = None if arguments.output is None else OutputFile(arguments.output, replace=arguments.force)
    reach = read_reach(
        arguments,
        sign_in=read_client(arguments),
        result_limits=COMPLETE_RESULTS,
        selection=Selection(include="all"),  # no tool is called, so none need be left out
        timeout_s=TOTAL_S if arguments.timeout is None or arguments.action == "wait" else arguments.timeout,
        discovery_s=READING_S if arguments.timeout is None else min(arguments.timeout, READING_S),
    )
    person = build_terminal_user(arguments.sign_in_at)
    provide_input = choose_input_provider() if arguments.action == "wait" else None
    opening = open_target(
        arguments.target, reach, build_terminal_approver("ask"), person=person, provide_input=provide_input
    )
    with opening as source:
        if arguments.action == "list":
            return _print_list(source, arguments)
        handle = source.handle(arguments.id)
        if arguments.action == "wait":
            return _print_result(handle, source, arguments, file)
        status = handle.cancel() if arguments.action == "cancel" else handle.status()
    if isinstance(status, Problem):
        return print_call_result(status, tool=None, file=None, output="", as_json=arguments.json)
    if arguments.json:
        print(json_text(write_status(status), indent=2))
    else:
        print_status(status)
    return OK


def _check(arguments: argparse.Namespace) -> None:
    """Refuse options that do not go with the action.

    Raises:
        UsageError: there is one.
    """
    action = arguments.action
    if not isinstance(read_target(arguments.target), UrlTarget):
        raise UsageError("Calls of local code end with their program. Give the URL of a server.")
    if action == "list" and arguments.id:
        raise UsageError(f"list prints all your calls. For one call: `toolwire calls show URL {arguments.id}`.")
    if action != "list" and not arguments.id:
        raise UsageError(f"{action} needs a call ID. `toolwire calls list URL` prints them.")
    if action != "wait" and arguments.output is not None:
        raise UsageError("--output is only for `calls wait`.")
    if arguments.force and arguments.output is None:
        raise UsageError("--force needs --output FILE.")


def _print_list(source: Any, arguments: argparse.Namespace) -> int:
    found: list[CallStatus] = []
    cursor = ""
    while len(found) < arguments.limit:
        page: CallPage | Problem = source.list_calls(min(_PAGE, arguments.limit - len(found)), cursor)
        if isinstance(page, Problem):
            return print_call_result(page, tool=None, file=None, output="", as_json=arguments.json)
        found.extend(page.calls)
        cursor = page.next
        if not cursor or not page.calls:
            break
    if arguments.json:
        print(json_text({"calls": [write_status(one) for one in found], "has_more": bool(cursor)}, indent=2))
    elif found:
        print_statuses(found)
        if cursor:
            print(f"There are more calls. --limit {2 * arguments.limit} prints more of them.")
    else:
        print("You have no long calls on this server.")
    return OK


def _print_result(handle: SyncHandle, source: Any, arguments: argparse.Namespace, file: OutputFile | None) -> int:
    result = wait_for_result(handle, arguments.target, timeout_s=arguments.timeout)
    output: Output | str = ""
    if file is not None and isinstance(result, Value):
        output = find_output(result.value, source.resource)
    return print_call_result(result, tool=handle.tool, file=file, output=output, as_json=arguments.json)


def wait_for_result(handle: SyncHandle, target: str, *, timeout_s: float | None) -> Result:
    """Return the result of a long call. A user who stops waiting is told how to take it up again."""
    try:
        result = handle.result(timeout_s=timeout_s, notify=print_progress)
    except KeyboardInterrupt:
        print_continuation(target, handle.id)
        raise
    if find_call_id(result):
        print_continuation(target, handle.id)
    return result
