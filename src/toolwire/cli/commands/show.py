"""``toolwire show``: show one tool: what it does, its arguments, what a call needs, and an example call."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from toolwire.cli.example_call import write_command, write_python
from toolwire.cli.exits import FAILED, OK, exit_code
from toolwire.cli.parser import read_remote
from toolwire.cli.terminal.screen import apply_style, escape_lines, escaped, json_text, print_error
from toolwire.consent import effective_level
from toolwire.consent.conditions import describe_condition
from toolwire.consent.tool_facts import find_scopes, list_ways_out
from toolwire.core.json_pointer import resolve_reference
from toolwire.core.model import Approval, Json, Problem, Tool
from toolwire.core.url_origin import get_origin
from toolwire.framing.xllm import collect_extra_members
from toolwire.hosting.targets.target import read_target
from toolwire.validation.example_arguments import build_example_arguments

from .lock import list_differences, open_tools
from .tools import describe, describe_type

_MAX_DEPTH: Final = 4
_MAX_LINES: Final = 200
_MAX_TEXT_LENGTH: Final = 4_000
_RULES: Final = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("multipleOf", "a multiple of {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("pattern", "matches {}"),
    ("format", "{}"),
    ("default", "default {}"),
)


def run(arguments: argparse.Namespace) -> int:
    """Print one tool of the target, as text or as JSON."""
    with open_tools(arguments) as (source, changed):
        tool = source.find(arguments.name)
        server = getattr(source, "url", "")
    if isinstance(tool, Problem):
        print_error(tool.message)
        if arguments.json:
            print(json_text({"ok": False, "kind": tool.kind, "message": tool.message}, indent=2))
        return exit_code(tool)
    changed = tuple(one for one in changed if one.tool == tool.id)
    for line in list_differences(changed):
        print_error(line)
    example = build_example_arguments(tool)
    reach = read_remote(arguments)
    command = write_command(arguments.target, arguments.name, example, tool, reach)
    python = write_python(read_target(arguments.target), arguments.name, example, tool, reach)
    if arguments.json:
        calls: Json = {"arguments": example, "command": command, "python": python}
        shown = describe(tool) | {"signature": write_signature(tool), "scopes": list(tool.scopes), "example": calls}
        shown |= {"server": find_server(tool, server), "limits": _describe_limits(tool), "hints": _list_hints(tool)}
        print(json_text(shown, indent=2))
    else:
        _print(tool, find_server(tool, server), command, python)
    return FAILED if changed else OK


def write_signature(tool: Tool) -> str:
    """Return the tool as one line like a Python function: required arguments first, optional ones with ``?``."""
    needed = set(tool.required_parameters)
    names = sorted(tool.parameters, key=lambda name: name not in needed)
    given = ", ".join(
        f"{name}{'' if name in needed else '?'}: {describe_type(tool.parameters[name])}" for name in names
    )
    result = "" if tool.output_schema is None else f" -> {describe_type(tool.output_schema)}"
    return f"{tool.name}({given}){result}"


def find_server(tool: Tool, url: str) -> str:
    """Return the origin that a call of ``tool`` goes to, or ``""`` for code; ``url`` is that of its connection."""
    # SE-09
    hints = tool.hints.get("openapi")
    declared = hints.get("origin") if isinstance(hints, Mapping) else None
    return declared if isinstance(declared, str) and declared else get_origin(url)


def _describe_limits(tool: Tool) -> Json:
    limit = tool.rate_limit
    return {
        "rate": None if limit is None else {"max": limit.max, "window": limit.window},
        "timeout_s": tool.timeout_s,
        "long": tool.long,
        "keep_s": tool.keep_s,
    }


def _list_hints(tool: Tool) -> list[str]:
    """Return what the tool's author or server says that binds nobody, a sentence each."""
    extra = collect_extra_members(tool)
    shown, following = extra.get("result"), extra.get("next")
    form = shown.get("render", "text") if isinstance(shown, Mapping) else None
    names = (
        [one.get("operationId") for one in following if isinstance(one, Mapping)] if isinstance(following, list) else []
    )
    listed = [name for name in names if isinstance(name, str)]
    sentences = (
        (tool.claimed_safe, "says that it only reads: --agree trusts that"),
        *((True, one) for one in list_ways_out(tool)),
        (isinstance(form, str), f"shows its result as: {form}"),
        (bool(listed), f"is usually followed by: {', '.join(listed)}"),
    )
    return [sentence for applies, sentence in sentences if applies]


def _print(tool: Tool, server: str, command: str, python: str) -> None:
    print(apply_style(escaped(write_signature(tool)), "bold", sys.stdout))
    print(escaped(tool.id))
    for text in (tool.description, tool.hint):
        if text.strip():
            print(f"\n{escape_lines(text.strip()[:_MAX_TEXT_LENGTH])}")
    _print_lines("Arguments", list_schema_lines(tool.input_schema) or ["none"])
    if tool.output_schema is not None:
        fields = list_schema_lines(tool.output_schema)
        _print_lines("Result", fields or [_write_words(tool.output_schema)])
    _print_lines("A call", [*([f"goes to {server}"] if server else []), *_list_needs(tool)])
    if hints := _list_hints(tool):
        _print_lines("Hints", hints)
    _print_lines("Example", [command, "", *python.split("\n")])


def _print_lines(title: str, lines: list[str]) -> None:
    print(f"\n{apply_style(title, 'bold', sys.stdout)}")
    for line in lines:
        print(f"  {escaped(line)}".rstrip())


def _list_needs(tool: Tool) -> list[str]:
    """Return a sentence for each thing that a caller should know before a call."""
    asks = f"asks you {'unless you allowed it for good' if tool.blanket_allowed else 'each time'}"
    limit, needed = tool.rate_limit, tool.requirements
    scopes = find_scopes(tool)
    sentences = (
        (True, "runs without a question" if effective_level(tool) is Approval.AUTO else asks),
        *((True, f"asks you where {describe_condition(one)}") for one in tool.ask_when),
        (tool.destructive, "destroys something"),
        (tool.safe and not tool.destructive, "only reads"),
        (tool.idempotent, "changes nothing more if it is repeated"),
        (tool.cost is not None, f"costs: {tool.cost}"),
        (limit is not None, f"may be made {limit.max} times in {limit.window}" if limit is not None else ""),
        (tool.timeout_s is not None, f"ends after {tool.timeout_s or 0:g} seconds"),
        (bool(scopes), f"needs the scopes {', '.join(scopes)}"),
        (bool(needed.authorization), f"needs a sign-in: {', '.join(one.id for one in needed.authorization)}"),
        (bool(needed.secrets), f"needs the secrets {', '.join(needed.secrets)}"),
        (needed.user_id, "needs a user id"),
        (tool.long, "goes on when its caller leaves"),
        (tool.keep_s is not None, f"keeps its result for {tool.keep_s or 0:g} seconds"),
        (tool.streams, "sends its result piece by piece"),
        (tool.deprecated, "is deprecated: look for another tool"),
    )
    return [sentence for applies, sentence in sentences if applies]


def list_schema_lines(schema: Mapping[str, Any]) -> list[str]:
    """Return a line for each member of an object schema, indented by depth; none if the schema has no members."""
    lines = list(islice(_walk(schema, schema, 0), _MAX_LINES + 1))
    return [*lines[:_MAX_LINES], "and more"] if len(lines) > _MAX_LINES else lines


def _walk(schema: Json, root: Mapping[str, Any], depth: int) -> Iterator[str]:
    # A schema can refer to itself and have any number of members: the depth ends here, the number where lines are read.
    found = _resolve(schema, root)
    properties, required = found.get("properties"), found.get("required")
    if depth >= _MAX_DEPTH or not isinstance(properties, Mapping):
        return
    needed = {one for one in required if isinstance(one, str)} if isinstance(required, list) else set()
    for name in sorted(list(properties)[:_MAX_LINES], key=lambda one: one not in needed):
        member = _resolve(properties[name], root)
        must = "required" if name in needed else "optional"
        yield f"{'  ' * depth}{name}: {_write_words(member)}, {must}{_write_description(member)}"
        yield from _walk(member, root, depth + 1)
        items = _resolve(member.get("items", {}), root)
        yield from _walk(items, root, depth + 1)


def _resolve(schema: Json, root: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
        schema = resolve_reference(root, schema["$ref"])
    return schema if isinstance(schema, Mapping) else {}


def _write_words(schema: Mapping[str, Any]) -> str:
    """Return the type of a value and its rules in words: ``integer, at least 1, default 10``."""
    items = schema.get("items")
    kind = describe_type(schema)
    words = [f"{kind} of {describe_type(items)}" if kind == "array" and isinstance(items, Mapping) else kind]
    for word, text in _RULES:
        if word in schema and (word != "default" or schema[word] is not None):
            value = schema[word]
            words.append(text.format(value if isinstance(value, str) else json_text(value)))
    return ", ".join(words)[:_MAX_TEXT_LENGTH]


def _write_description(schema: Mapping[str, Any]) -> str:
    text = schema.get("description")
    return f". {text.strip().partition(chr(10))[0]}" if isinstance(text, str) and text.strip() else ""
