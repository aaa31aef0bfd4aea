"""``toolwire prompts``: list the prompts of a target, or fill in one."""

from __future__ import annotations

import argparse

from toolwire.cli.exits import OK
from toolwire.cli.targets.open_target import OpenedTarget, open_offering
from toolwire.cli.terminal.call_result import print_call_result
from toolwire.cli.terminal.screen import escape_lines, escaped, json_text
from toolwire.cli.terminal.table import print_list
from toolwire.core.content import describe_content
from toolwire.core.errors import UsageError
from toolwire.core.model import Json, Problem
from toolwire.core.server_features import PromptDefinition


def run(arguments: argparse.Namespace) -> int:
    """Print the list of prompts, or the messages of one."""
    with open_offering(arguments) as source:
        if arguments.name is None:
            return _print_list(source, as_json=arguments.json)
        result = source.get_prompt(arguments.name, _read_texts(arguments.values))
    if isinstance(result, Problem) or arguments.json:
        return print_call_result(result, tool=None, file=None, output="", as_json=arguments.json)
    for message in result.value["messages"]:
        content = describe_content(message["content"])
        text = content if isinstance(content, str) else json_text(content, indent=2)
        print(f"{message['role']}: {escape_lines(text)}")
    return OK


def _read_texts(values: list[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for value in values:
        name, mark, text = value.partition("=")
        if not mark or not name:
            raise UsageError(f"Invalid argument {value[:100]!r}: write KEY=VALUE.")
        texts[name] = text
    return texts


def _print_list(source: OpenedTarget, *, as_json: bool) -> int:
    listed = source.list_prompts()
    if isinstance(listed, Problem):
        return print_call_result(listed, tool=None, file=None, output="", as_json=as_json)
    rows = [(escaped(one.name), escaped(_list_arguments(one)), escaped(one.description)) for one in listed]
    described = [_describe(one) for one in listed]
    nothing = "This server has no prompts."
    print_list(described, ("prompt", "arguments", "description"), rows, nothing, as_json=as_json)
    return OK


def _list_arguments(one: PromptDefinition) -> str:
    return " ".join(argument.name if argument.is_required else f"[{argument.name}]" for argument in one.arguments)


def _describe(one: PromptDefinition) -> Json:
    arguments: list[Json] = [
        {"name": name, "description": description, "is_required": is_required}
        for name, description, is_required in one.arguments
    ]
    return {"name": one.name, "title": one.title, "description": one.description, "arguments": arguments}
