"""What hostile patterns, texts and schemas may cost: processor time of this thread, which no other program uses up.

The bounds are those of the requirements; what was measured is a tenth of them or less.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.document_bombs import BOMBS, Schema, levels, openapi, wrap_schema
from toolwire.convert import ReadDocument, read
from toolwire.core.model import Call, Problem, Tool
from toolwire.framing import jsontext, yamltext
from toolwire.validation import build_arguments_check, compile_schema

PATTERNS: Final = [r"^(a+)+$", r"^(a|aa)+$", r"^(a|a)*$", r"^([a-zA-Z]+)*$", r"^(.*a){20}$"]
TEXTS: Final[dict[str, bytes]] = {
    "arrays 100,000 deep": b"[" * 100_000 + b"]" * 100_000,
    "objects 100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "an end that never comes": b"[" * 1_000_000,
    "an integer of 1,000,000 digits": b'{"a":' + b"9" * 1_000_000 + b"}",
    "a number beyond all": b'{"a":1e999}',
    "NaN": b'{"a":NaN}',
    "a lone surrogate": b'{"a":"\\ud800"}',
}
YAMLS: Final[dict[str, bytes]] = {
    "a bomb of aliases": b"a0: &a0 [x]\n"
    + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)),
    "lists 10,000 deep": b"[" * 10_000 + b"]" * 10_000,
    "an anchor inside itself": b"a: &a [*a]",
    "a name twice": b"a: 1\n" * 100_000,
    "a long integer": b"a: " + b"9" * 100_000,
    "not a number": b"a: .nan",
}
SCHEMAS: Final[dict[str, Schema]] = {
    "2^40 by anyOf": levels(lambda after: {"anyOf": [after, after]}, 40),
    "2^40 by allOf": levels(lambda after: {"allOf": [after, after]}, 40),
    "2^40 by properties": BOMBS["doubling properties"],
    "a reference to itself": wrap_schema({"$ref": "#/$defs/a"}, **{"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}),
    "references to each other": wrap_schema(
        {"$ref": "#/$defs/a"}, **{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    ),
    "300,000 properties": {"type": "object", "properties": {f"p{n}": {} for n in range(300_000)}},
}


def measure(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of processor time of the better of two runs, and what came of the last."""
    used: list[float] = []
    for _ in range(2):
        began = time.thread_time()
        found = work()
        used.append(time.thread_time() - began)
    return min(used), found


@pytest.mark.requirement("D-15")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_pattern_takes_long_on_a_long_text(pattern: str) -> None:
    check = build_arguments_check()
    tool = Tool(name="x", input_schema={"properties": {"a": {"type": "string", "pattern": pattern}}})
    call = Call(tool, {"a": "a" * 100_000 + "!"})
    seconds, verdict = measure(lambda: check(call))
    assert verdict.problem.kind == "invalid_arguments"
    assert seconds <= 0.1


@pytest.mark.requirement("D-16")
@pytest.mark.parametrize("name", TEXTS)
def test_hostile_json_is_refused_quickly(name: str) -> None:
    seconds, found = measure(lambda: jsontext.read(TEXTS[name]))
    assert isinstance(found, Problem)
    assert seconds <= 1


@pytest.mark.requirement("D-16")
@pytest.mark.parametrize("name", YAMLS)
def test_hostile_yaml_is_refused_quickly(name: str) -> None:
    seconds, found = measure(lambda: yamltext.read(YAMLS[name]))
    assert isinstance(found, Problem)
    assert seconds <= 1


@pytest.mark.requirement("D-17")
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_bomb_is_a_tool_or_a_problem_soon(name: str) -> None:
    text = json.dumps(openapi(SCHEMAS[name])).encode()

    def offer() -> list[str]:
        """Return what became of it: a tool whose arguments can be checked, or the reason why there is none."""
        document = read(text)
        if isinstance(document, Problem):
            return [document.message]
        assert isinstance(document, ReadDocument)
        found = []
        for tool in document.catalog.tools:
            try:
                found.append(str(compile_schema(tool.input_schema)({"body": {"x": "text"}})))
            except ValueError as error:
                found.append(str(error))
        return found or [str(loss) for loss in document.losses]

    seconds, found = measure(offer)
    assert found
    reading, _ = measure(lambda: jsontext.read_without_duplicates(text))
    assert seconds <= max(2, 4 * reading), "a large document takes as long as reading its text"
