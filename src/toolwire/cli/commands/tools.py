"""``toolwire tools``: list the tools of a target."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence

from toolwire.cli.exits import FAILED, OK
from toolwire.cli.targets.open_target import OpenedTarget
from toolwire.cli.terminal.screen import escape_first_line, escaped, json_text, print_error, shorten, write_count
from toolwire.cli.terminal.slow_work import announce_if_slow
from toolwire.cli.terminal.table import print_list, print_table
from toolwire.consent import effective_level
from toolwire.convert.fields import FIELDS
from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Json, Schema, Tool
from toolwire.find import search_tools

from .lock import list_differences, open_tools

_MAX_TEXT_LENGTH = 100
_MAX_ARGUMENTS = 120
_MAX_VALUES = 6
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,300}>")  # documents of REST APIs say much in HTML

_LEVEL_WORDS = {Approval.AUTO: "auto", Approval.PER_CALL: "asks", Approval.DENY: "denied"}

_DESCRIBED = (
    *("name", "toolkit", "version", "description", "input_schema", "output_schema", "approval", "ask_when", "question"),
    *("blanket_allowed", "destructive", "safe", "idempotent", "cost", "hint", "rate_limit", "requirements"),
    *("streams", "deprecated"),
)
"""The fields of a tool that ``--json`` prints."""
COLUMNS = ("name", "what it does", "arguments", "consent", "cost")


def run(arguments: argparse.Namespace) -> int:
    """Print the tools of the target, as a table or as JSON."""
    with open_tools(arguments) as (source, changed):
        if arguments.tags:
            rows = [(escaped(tag), f"{number:,}") for tag, number in source.tags().items()]
            nothing = "The tools have no tags."
            print_list(dict(source.tags()), ("tag", "tools"), rows, nothing, as_json=arguments.json)
            return OK
        catalog = source.catalog()
        findings = () if arguments.json and not arguments.findings else _list_findings(source)
        tools = catalog.tools if arguments.find is None else search_tools(catalog, arguments.find)
        table = () if arguments.json or arguments.findings else build_rows(catalog, source.find_level, tools)
        levels = {tool.id: source.find_level(tool) for tool in tools} if arguments.json else {}
    for line in list_differences(changed):
        print_error(line)
    if arguments.findings:
        nothing = f"{escaped(catalog.title)} has no findings: toolwire uses all that its server declares."
        text = "\n".join(map(escaped, findings)) or nothing
        print(json_text(list(findings), indent=2) if arguments.json else text)
    elif arguments.find is not None and not tools and not arguments.json:
        print(f"No tool of {escaped(catalog.title)} fits: {escaped(arguments.find)}")
    elif arguments.json:
        print(json_text([describe(tool, levels[tool.id]) for tool in tools], indent=2))
    else:
        _print(catalog, table, len(findings))
    return FAILED if changed else OK


def _print(catalog: Catalog, table: Sequence[tuple[str, ...]], number: int) -> None:
    """Print the table of the tools, and how many findings there are."""
    if table:
        print_table(COLUMNS, table, sys.stdout)
    else:
        print(f"{escaped(catalog.title)} has no tools.")
    if number:
        print(f"\n{write_count(number, 'finding')}: --findings shows what toolwire left out or reads differently.")


def _list_findings(source: OpenedTarget) -> tuple[str, ...]:
    """Return all findings. Every schema is read first: a schema is converted only when it is used."""
    with announce_if_slow("Reading every schema of the document"):
        for tool in source.catalog().tools:
            len(tool.input_schema)
            len(tool.output_schema or {})
    return source.findings()


def describe(tool: Tool, level: Approval | None = None) -> dict[str, Json]:
    """Return ``tool`` as JSON data: ``approval`` is what the site declares, ``consent`` what a call needs here.

    That is ``level``, or what the site and this client require.
    """
    described = {name: FIELDS[name].write(tool) for name in _DESCRIBED}
    return {"id": tool.id, **described, "consent": effective_level(tool) if level is None else level}


def build_rows(
    catalog: Catalog,
    find_level: Callable[[Tool], Approval] = effective_level,
    tools: Sequence[Tool] | None = None,
) -> list[tuple[str, ...]]:
    """Return a row of the table for each of ``tools``, or else for each tool of the catalog, with escaped texts.

    ``find_level`` returns how much consent a call of a tool needs.
    """
    newest = {tool.id: name for name, tool in catalog.names.items()}
    return [
        (
            escaped(newest.get(tool.id, tool.id)),
            shorten(_TAG.sub("", escape_first_line(tool.description)), _MAX_TEXT_LENGTH),
            escaped(_list_arguments(tool)),
            _describe_consent(tool, find_level(tool)),
            tool.cost or "",
        )
        for tool in (catalog.tools if tools is None else tools)
    ]


def _list_arguments(tool: Tool) -> str:
    """Return the arguments as text, required ones first; if there is no more room, how many more there are."""
    needed = set(tool.required_parameters)
    names = sorted(tool.parameters, key=lambda name: name not in needed)
    shown: list[str] = []
    for name in names:
        description = _describe_argument(name, tool.parameters[name], tool)
        if shown and sum(map(len, shown)) + len(description) > _MAX_ARGUMENTS:
            break
        shown.append(description)
    more = len(names) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more else "")


def _describe_argument(name: str, schema: Schema, tool: Tool) -> str:
    optional = "" if name in tool.required_parameters else "?"
    return f"{name}{optional}: {describe_type(schema)}"


def describe_type(schema: Json) -> str:
    """Return the type that ``schema`` accepts, in a few words."""
    match schema:
        case {"enum": [_, *_] as values}:
            listed = "|".join(json_text(value) for value in values[:_MAX_VALUES])
            return shorten(listed, _MAX_TEXT_LENGTH) + ("|…" if len(values) > _MAX_VALUES else "")
        case {"type": [_, *_] as kinds}:
            return "|".join(kind for kind in kinds if isinstance(kind, str))
        case {"anyOf": [_, *_] as choices} | {"oneOf": [_, *_] as choices}:
            return "|".join(dict.fromkeys(_name_type(choice) for choice in choices))
        case _:
            return _name_type(schema)


def _name_type(schema: Json) -> str:
    match schema:
        case {"type": str() as kind}:
            return kind
        case {"$ref": str() as reference}:
            return reference.rpartition("/")[2]
        case _:
            return "any"


def _describe_consent(tool: Tool, level: Approval) -> str:
    words = [_LEVEL_WORDS[level]]
    words += ["destroys"] if tool.destructive else []
    return ", ".join(words)
