"""Check the tools of a Python file as their author would: what a model would misread, or pay too much for."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from toolwire.core.catalog import Catalog
from toolwire.core.write_names import suspects_write
from toolwire.define.function import Function
from toolwire.framing.text_faults import Fault

RULES: Final[Mapping[str, str]] = {
    "no-description": "A tool has a description.",
    "untyped-argument": "Every argument has a type.",
    "unasked-write": "A tool whose name looks like a write is not declared read-only without a question.",
    "similar-tools": "A model can tell tools apart by their names and descriptions.",
    "large-tool": "Each tool's declaration costs at most 400 tokens.",
    "large-list": "All declarations together cost at most 10,000 tokens.",
}
"""The rules, by name. A name of more than 64 characters is refused where the tool is defined."""
MAX_TOOL_TOKENS: Final = 400
MAX_LIST_TOKENS: Final = 10_000
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SENTENCE_END: Final = re.compile(r"[.\n]")


def check_tools(functions: Sequence[Function], *, measure: bool = True) -> list[Fault]:
    """Return what is wrong with the tools of a toolkit, all as warnings, in the order of the tools.

    ``pointer`` is ``/`` and the name of the tool, or empty for all tools together. ``line`` is where the function
    begins, 1 if that is not known. Without ``measure``, tokens are not counted.
    """
    # FD-05
    faults = [fault for function in functions for fault in _check_tool(function)]
    faults += _find_similar(functions)
    if measure:
        faults += _find_large(functions)
    order = {function.tool.name: place for place, function in enumerate(functions)}
    return sorted(faults, key=lambda fault: order.get(fault.pointer[1:], len(order)))


def compute_score(functions: Sequence[Function], faults: Sequence[Fault]) -> int:
    """Return the share of the checks that passed, from 0 to 100: each rule counts once for each tool."""
    failed = {(fault.rule, fault.pointer) for fault in faults}
    made = len(functions) * (len(RULES) - 1) + 1
    return 100 * (made - len(failed)) // made


def _check_tool(function: Function) -> Iterator[Fault]:
    tool = function.tool
    if not tool.description.strip():
        yield _build(
            function, "no-description", f"{tool.name} has no description. Write a docstring that says what it does."
        )
    for name, schema in tool.parameters.items():
        if not {key for key in schema if key not in ("title", "description", "default", "examples")}:
            yield _build(
                function,
                "untyped-argument",
                (f"{tool.name}: {name} accepts anything. Annotate it, such as {name}: str."),
            )
    if not function.declares_safe and (why := suspects_write(tool)):
        yield _build(
            function,
            "unasked-write",
            f"{tool.name} is declared as read-only without a question, but {why}. Set safe=True if it only reads."
            ' Otherwise, set safe=False or remove approval="auto".',
        )


def _find_similar(functions: Sequence[Function]) -> Iterator[Fault]:
    """Yield each tool that has the words of the name, or the first sentence, of an earlier one."""
    by_name, by_text = defaultdict[frozenset[str], list[str]](list), defaultdict[str, list[str]](list)
    for function in functions:
        name, description = function.tool.name, function.tool.description
        words = frozenset(word.lower().removesuffix("s") for word in _WORD.findall(name))
        sentence = _SENTENCE_END.split(description.strip().lower())[0]
        if words and by_name[words]:
            yield _build(
                function,
                "similar-tools",
                f"{name} and {by_name[words][0]} have nearly the same name. Rename one of them to say what it does.",
            )
        elif sentence and by_text[sentence]:
            yield _build(
                function,
                "similar-tools",
                f"{name} and {by_text[sentence][0]} have the same description. Say in each one when to use it.",
            )
        by_name[words].append(name)
        by_text[sentence].append(name)


def _find_large(functions: Sequence[Function]) -> Iterator[Fault]:
    from toolwire.adapters.tool_declarations import measure_tools  # a server that starts does not count tokens

    sizes = measure_tools(Catalog(tools=tuple(function.tool for function in functions)))
    total = 0
    for function in functions:
        tokens = max(sizes.get(function.tool.name, {}).values(), default=0)
        total += tokens
        if tokens > MAX_TOOL_TOKENS:
            yield _build(
                function,
                "large-tool",
                (
                    f"{function.tool.name} costs about {tokens:,} tokens, more than {MAX_TOOL_TOKENS}. "
                    "Shorten its description, or split it into two tools."
                ),
            )
    if total > MAX_LIST_TOKENS:
        message = (
            f"All tools together cost about {total:,} tokens, more than {MAX_LIST_TOKENS:,}. Offer fewer "
            "tools, or split them into several toolkits."
        )
        yield Fault("", 1, 1, "warning", "large-list", message)


def _build(function: Function, rule: str, message: str) -> Fault:
    code = getattr(inspect.unwrap(function.call), "__code__", None)
    return Fault(f"/{function.tool.name}", getattr(code, "co_firstlineno", 1), 1, "warning", rule, message)
