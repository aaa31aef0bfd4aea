"""Print the result of a call, or write it into a file."""

from __future__ import annotations

import sys

from toolwire.cli.exits import FAILED, OK, exit_code
from toolwire.cli.output_file import STANDARD_OUTPUT, Output, OutputFile
from toolwire.client.calls.grant_polling import find_missing_grants
from toolwire.core.content import describe_content
from toolwire.core.errors import UsageError
from toolwire.core.model import Json, Kind, Problem, Result, Tool, Value
from toolwire.framing.cut_notice import SCHEMA_FAULT, describe_cut, describe_schema_fault

from .result_display import print_result
from .screen import escape_lines, escaped, json_text, print_error, print_warning


def print_call_result(
    result: Result, *, tool: Tool | None, file: OutputFile | None, output: Output | str, as_json: bool
) -> int:
    """Write ``output`` to ``file`` if there is one, else print ``result``; return the exit code.

    ``output`` is a sentence where the result cannot be written to a file.
    """
    failure = ""
    if file is not None and isinstance(result, Value):
        failure = _write_output(file, output, as_json=as_json)
        if not failure:
            return OK
    # What could not be written is printed: the call was made, and its result may not come again.
    if as_json:
        print(json_text(_as_json(result), indent=2))
    elif isinstance(result, Problem):
        _print_problem(result)
    else:
        _print_value(result.value, tool)
        if cut := describe_cut(result.notes):
            print_warning(cut)
        if fault := describe_schema_fault(result.notes):
            print_warning(fault)
    if failure:
        print_error(f"{failure} The call was sent.")
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


def _as_json(result: Result) -> dict[str, Json]:
    if not isinstance(result, Problem):
        noted = {SCHEMA_FAULT: result.notes[SCHEMA_FAULT]} if result.notes and SCHEMA_FAULT in result.notes else {}
        return {"ok": True, "value": result.value, **noted}
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
    if problem.kind is Kind.ACCEPTED:
        return  # the same call again would be another one
    if problem.can_retry and problem.retry_after_ms is not None:
        print_error(f"The same call might succeed in {problem.retry_after_ms / 1_000:g} seconds.")
    elif problem.can_retry:
        print_error("The same call might succeed later.")


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
