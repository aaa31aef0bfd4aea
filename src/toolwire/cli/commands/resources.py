"""``toolwire resources``: list what a target offers for reading, or read one of it."""

from __future__ import annotations

import argparse

from toolwire.cli.exits import OK
from toolwire.cli.output_file import Output, OutputFile, find_output
from toolwire.cli.targets.open_target import OpenedTarget, open_offering
from toolwire.cli.terminal.call_result import print_call_result
from toolwire.cli.terminal.screen import escaped
from toolwire.cli.terminal.table import print_list
from toolwire.core.errors import UsageError
from toolwire.core.model import Json, Problem, Value
from toolwire.core.server_features import ResourceDefinition


def run(arguments: argparse.Namespace) -> int:
    """Print the list of resources, or the content of one."""
    file = None if arguments.output is None else OutputFile(arguments.output, replace=arguments.force)
    if file is None and arguments.force:
        raise UsageError("--force needs --output FILE.")
    if arguments.uri is None and file is not None:
        raise UsageError("--output writes a single resource. Name its URI.")
    with open_offering(arguments) as source:
        if arguments.uri is None:
            return _print_list(source, as_json=arguments.json)
        result = source.read_resource(arguments.uri)
        output: Output | str = ""
        if file is not None and isinstance(result, Value):
            output = find_output(result.value, source.resource)
    return print_call_result(result, tool=None, file=file, output=output, as_json=arguments.json)


def _print_list(source: OpenedTarget, *, as_json: bool) -> int:
    listed = source.list_resources()
    if isinstance(listed, Problem):
        return print_call_result(listed, tool=None, file=None, output="", as_json=as_json)
    rows = [(escaped(one.public_uri), escaped(one.media_type), escaped(one.description)) for one in listed]
    described = [_describe(one) for one in listed]
    nothing = "This target has no resources."
    print_list(described, ("uri", "type", "description"), rows, nothing, as_json=as_json)
    return OK


def _describe(one: ResourceDefinition) -> Json:
    return {
        "uri": one.public_uri,
        "is_template": one.is_template,
        "name": one.name,
        "title": one.title,
        "description": one.description,
        "media_type": one.media_type,
        "bytes": one.size,
    }
