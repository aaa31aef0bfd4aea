"""``toolwire call``: call one tool, with the user's consent where it is needed."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolwire.cli.exits import FAILED, OK, UsageError, exit_code
from toolwire.cli.output_file import STANDARD_OUTPUT, Output, OutputFile, find_output
from toolwire.cli.targets.arguments import read_object, read_values
from toolwire.cli.targets.context_options import read_context
from toolwire.cli.targets.open_target import (
    OpenedTarget,
    UrlOptions,
    open_target,
    read_access,
    read_client,
    read_headers,
    read_key,
    read_selection,
)
from toolwire.cli.terminal.result_display import print_result
from toolwire.cli.terminal.screen import apply_style, escape_lines, escaped, json_text, print_error, print_warning
from toolwire.cli.terminal.terminal_approver import build_agreement, choose_approver, open_session
from toolwire.cli.terminal.terminal_input import choose_input_provider
from toolwire.cli.terminal.terminal_user import build_terminal_user
from toolwire.client.calls.pending_grants import find_missing_grants
from toolwire.core.connect_error import ConnectError
from toolwire.core.content import describe_content
from toolwire.core.model import Json, Kind, Problem, Progress, Result, Tool, Value
from toolwire.core.recipe import RecipeStep
from toolwire.core.resources import COMPLETE_RESULTS
from toolwire.framing.cut_notice import describe_cut

from .lock import read_lock_file as read_locked


def run(arguments: argparse.Namespace) -> int:
    """Call the tool and print its result."""
    locked = read_locked(Path(arguments.file)) if arguments.locked else None
    key, chosen = read_key(arguments.key, arguments.key_env), read_selection(arguments)
    agree = build_agreement(agreed=arguments.agree, called=arguments.name)
    reach = UrlOptions(
        key=key,
        protocol=arguments.protocol,
        locked=locked,
        selection=chosen,
        agree=agree,
        sign_in=read_client(arguments),
        context=read_context(arguments),
        access=read_access(arguments),
        headers=read_headers(arguments),
        result_limits=COMPLETE_RESULTS,
    )
    ask = choose_approver(arguments.ask, "yes" if arguments.yes else "ask")
    given = _read_arguments(arguments.args)
    file = None if arguments.output is None else OutputFile(arguments.output, replace=arguments.force)
    if file is None and arguments.force:
        raise UsageError("--force replaces the file of --output: name one.")
    tool: Tool | None = None
    result: Result
    output: Output | str = ""
    try:
        person = build_terminal_user(arguments.sign_in_at)
        opening = open_target(
            arguments.target, reach, ask, open_session(), person, choose_input_provider(arguments.ask)
        )
        with opening as source, _log_tools(arguments):
            tool, result = _call_tool(source, arguments, given)
            if file is not None and isinstance(result, Value):
                output = find_output(result.value, source.resource)
    except ConnectError as error:
        result = Problem(kind=Kind.UNREACHABLE, message=str(error))
    failure = ""
    if file is not None and isinstance(result, Value):
        failure = _write_output(file, output, as_json=arguments.json)
        if not failure:
            return OK
    # What could not be written is printed: the call was made, and its result may not come again.
    if arguments.json:
        print(json_text(_as_json(result), indent=2))
    elif isinstance(result, Problem):
        _print_problem(result)
    else:
        _print_value(result.value, tool)
        if cut := describe_cut(result.notes):
            print_warning(cut)
    if failure:
        print_error(f"{failure} The call was made.")
        return FAILED
    return exit_code(result) if isinstance(result, Problem) else OK


def _write_output(file: OutputFile, output: Output | str, *, as_json: bool) -> str:
    """Write what was found and say so, or return why nothing is written."""
    if isinstance(output, str):
        return f"{file.name} was not written: {output}."
    try:
        file.write(output)
    except UsageError as error:
        return str(error)
    size = len(output.data)
    if file.name == STANDARD_OUTPUT:
        pass
    elif as_json:
        print(json_text({"ok": True, "file": file.name, "media_type": output.media_type, "bytes": size}, indent=2))
    else:
        print(f"{escaped(file.name)}: {size:,} bytes, {escaped(output.media_type)}")
    return ""


def _call_tool(
    source: OpenedTarget, arguments: argparse.Namespace, given: dict[str, Json] | Problem
) -> tuple[Tool | None, Result]:
    tool = source.find(arguments.name)
    if isinstance(tool, Problem):
        return None, tool
    step = None if arguments.step is None else _find_step(source, arguments.step)
    values = given if isinstance(given, Problem) else read_values(arguments.values, given, tool)
    if isinstance(values, Problem):
        return tool, values
    return tool, source.call(arguments.name, values, notify=_show_progress, step=step)


def _find_step(source: OpenedTarget, text: str) -> RecipeStep:
    """Return the step that ``text`` names, such as ``book/2``.

    Raises:
        UsageError: the site describes no such step.
    """
    for recipe in source.recipes:
        for step in recipe.steps:
            if text == f"{recipe.id}/{step.number}":
                return step
    raise UsageError(f"There is no step {text[:100]!r}: `toolwire tools TARGET --recipes` lists them, such as book/2.")


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
        raise UsageError(f"The arguments cannot be read from {text[1:]}: {why}.") from error


def _as_json(result: Result) -> dict[str, Json]:
    if not isinstance(result, Problem):
        return {"ok": True, "value": result.value}
    return {
        "ok": False,
        "kind": result.kind,
        "message": result.message,
        "parameter_errors": dict(result.parameter_errors),
        "can_retry": result.can_retry,
        "retry_after_ms": result.retry_after_ms,
        "additional_prompt_content": result.additional_prompt_content,
        "details": dict(result.details),
    }


def _print_problem(problem: Problem) -> None:
    print_error(problem.message)
    for grant in find_missing_grants(problem):
        print_error(f"Grant access to {grant.provider} at {grant.url}")
    if problem.can_retry and problem.retry_after_ms is not None:
        print_error(f"The same call may work in {problem.retry_after_ms / 1_000:g} seconds.")
    elif problem.can_retry:
        print_error("The same call may work later.")


def _print_value(value: Json, tool: Tool | None) -> None:
    """Print a text as it is into a pipe and escaped on a terminal, a sentence for content, any other value as JSON.

    On a terminal, the form that the site suggests comes first.
    """
    if value is None and tool is not None and tool.output_schema is None:
        return
    if tool is not None and sys.stdout.isatty() and print_result(tool, value):
        return
    value = describe_content(value)
    if not isinstance(value, str):
        print(json_text(value, indent=2))
        return
    text = escape_lines(value) if sys.stdout.isatty() else value
    print(text, end="" if text.endswith("\n") else "\n")


def _show_progress(progress: Progress) -> None:
    text = progress.value if isinstance(progress.value, str) else json_text(progress.value)
    print(apply_style(escape_lines(text), "dim", sys.stderr), file=sys.stderr, flush=True)


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
