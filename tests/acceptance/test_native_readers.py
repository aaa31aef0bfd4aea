"""Every reader in native code gets every kind of nesting in a process of its own: a crash there is a failed test.

`python -m tests.acceptance.test_native_readers KIND` is that process. It ends with 0 if each text was read or refused.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any, Final

import httptools
import pytest

from toolwire.core.model import Problem
from toolwire.framing import jsontext, yamltext
from toolwire.validation import compile_schema
from toolwire.validation.patterns import is_linear_pattern

ROOT: Final = Path(__file__).parents[2]
LEVELS: Final = (60, 201, 20_000)

YAML_PIECES: Final = (
    "- ", "? ", "[", "{", "{a: ", "[a: ", "{? ", "[? ", "- ? ", "? - ", "! ", "!a ", "!!seq ", "&a ", "*a ", "[&a ",
    "[!!seq ", "'", '"', "a: ", "'a': ", ": ", "|\n ", "> ", "---\n", "--- ", "...\n", "%TAG ! x\n", "%YAML 1.2\n",
    "#", "\t", "]", "}", ",", "[,", "[[],", "{a: b, ", "<<: ", "- <<: [", "\ud7ff", "\x85", "\u2028", "\x00",
)  # fmt: skip
JSON_PIECES: Final = (
    "[", "{", '{"a":', '[{"a":', "[[],", '{"a":{},"b":', '"', '"\\', "\\", "\\ud800", '["\\ud800",', "1", "-", "1e",
    "9", "]", "}", ",", ":", "[1,", "null", " ", "\x00", "[[[{", '{"":',
)  # fmt: skip
HTTP_PIECES: Final = (
    "GET / HTTP/1.1\r\n", "a: b\r\n", "a:\r\n b\r\n", "a", " ", ":", "\r", "\n", "\r\n", "\x00", "\xff", ";a=b",
    "content-length: 1\r\n", "transfer-encoding: chunked\r\n", "0\r\n", "f", "5;a\r\nhello\r\n", "upgrade: h2c\r\n",
)  # fmt: skip
PATTERN_PIECES: Final = (
    "(",
    "(?:",
    "[",
    "[^",
    "(a|",
    "(a*)*",
    "(?=",
    "(?<!",
    "{1,",
    "\\",
    "(?i:",
    "[[:alpha:]",
    "a{9}",
    "(a{9}",
    "(?<a>",
    "|",
    "*",
)
SCHEMAS: Final[dict[str, Callable[[Any], Any]]] = {
    **{
        name: lambda inner, name=name: {name: inner}
        for name in (
            "items", "not", "if", "additionalProperties", "contains", "propertyNames", "unevaluatedProperties",
            "unevaluatedItems", "const", "default", "unknown", "additionalItems", "contentSchema",
        )
    },
    **{name: lambda inner, name=name: {name: [inner]} for name in ("allOf", "anyOf", "oneOf", "prefixItems", "enum")},
    **{
        name: lambda inner, name=name: {name: {"a": inner}}
        for name in ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "dependencies")
    },
    "then": lambda inner: {"if": True, "then": inner, "else": inner} if isinstance(inner, bool) else {"then": inner},
    "both": lambda inner: {"items": inner, "contains": True, "unevaluatedItems": False, "properties": {"a": inner}},
}  # fmt: skip


def nest(wrap: Callable[[Any], Any], levels: int, inner: Any) -> Any:
    return reduce(lambda done, _: wrap(done), range(levels), inner)


def repeat(pieces: tuple[str, ...], most: int = 100_000) -> Iterator[bytes]:
    """Yield each piece as often as each number of levels says, once as it is and once with all brackets closed."""
    for piece in pieces:
        for levels in LEVELS:
            text = piece * min(levels, most // len(piece))
            ends = "".join("]" if one == "[" else "}" for one in reversed(piece) if one in "[{") * levels
            for end in {"", "1" + ends[:most]}:
                yield (text + end).encode("utf-8", "surrogatepass")


def read_yaml() -> None:
    for text in repeat(YAML_PIECES):
        yamltext.read(text)
        yamltext.locate(text, ["/a/0"])


def read_json() -> None:
    for text in repeat(JSON_PIECES, 2_000_000):
        first = jsontext.read(text)
        assert isinstance(jsontext.read_without_duplicates(text), Problem) or not isinstance(first, Problem)
    for levels in LEVELS:
        for data in (nest(lambda one: [one], levels, 1), nest(lambda one: {"a": one}, levels, 1)):
            for write in (jsontext.write, jsontext.write_canonical):
                try:
                    assert write(data)
                except ValueError:
                    assert levels > 200


def check_schemas() -> None:
    """Compile each kind of schema at each depth, and check values that are nested as deep."""
    for wrap in SCHEMAS.values():
        for levels in (60, 190, 5_000):
            schema = nest(wrap, levels, {"type": "string"})
            try:
                check = compile_schema({"type": "object", "properties": {"v": schema}})
            except ValueError:
                continue
            depth = min(levels, 190)  # no reader lets more through
            for value in ("x", nest(lambda one: [one], depth, "x"), nest(lambda one: {"a": one}, depth, "x")):
                check({"v": value})


def parse_http() -> None:
    starts = (
        b"",
        b"GET / HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
    )
    for start in starts:
        for text in repeat(HTTP_PIECES, 200_000):
            for make in (httptools.HttpRequestParser, httptools.HttpResponseParser):
                parser = make(object())
                try:
                    for at in range(0, len(text), 65_536):
                        parser.feed_data(start + text[at : at + 65_536] if at == 0 else text[at : at + 65_536])
                except (httptools.HttpParserError, httptools.HttpParserUpgrade):
                    continue


def compile_patterns() -> None:
    for text in repeat(PATTERN_PIECES):
        is_linear_pattern(text.decode())


READERS: Final[dict[str, Callable[[], None]]] = {
    "yaml": read_yaml, "json": read_json, "schema": check_schemas, "http": parse_http, "pattern": compile_patterns,
}  # fmt: skip


@pytest.mark.requirement("AT-31")
@pytest.mark.parametrize("kind", READERS)
def test_native_reader_survives_every_kind_of_nesting(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", __name__, kind],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2_000:]


if __name__ == "__main__":
    READERS[sys.argv[1]]()
    print("done")
