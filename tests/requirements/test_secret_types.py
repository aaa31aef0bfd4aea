"""No secret is compared with ``==``, and looking one up is the same work whoever asks."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolwire
from toolwire.core.model import Secret
from toolwire.server.access.api_keys import ApiKeyCallers

SOURCE = Path(toolwire.__file__).parent
SECRET = re.compile(r"^_?(?:secret|password|signature|verifier|api_?key|token_text|credential)s?$")


def list_compared_secrets(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each operand of ``==`` or ``!=`` that is a secret, by its line and its text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops):
            for operand in (node.left, *node.comparators):
                if is_secret(operand):
                    yield operand.lineno, ast.unparse(node)


def is_secret(operand: ast.expr) -> bool:
    match operand:
        case ast.Call(func=ast.Attribute(attr="reveal")):
            return True
        case ast.Call(func=ast.Attribute(attr="encode", value=inner)):
            return is_secret(inner)
        case ast.Call(func=ast.Attribute(attr="digest" | "hexdigest")):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return SECRET.match(name) is not None
    return False


@pytest.mark.requirement("D-27")
def test_secrets_are_compared_only_in_constant_time() -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{line}: {text}"
        for file in sorted(SOURCE.rglob("*.py"))
        for line, text in list_compared_secrets(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    ["a.reveal() == b", "b != a.reveal().encode()", "sha256(x).digest() == y", "self._secret == x", "password == x"],
)
def test_check_finds_each_insecure_comparison(code: str) -> None:
    assert [*list_compared_secrets(ast.parse(code))]


def count_steps(keys: ApiKeyCallers, given: bytes) -> int:
    """Return how many lines and calls of C looking up ``given`` takes."""
    count = 0

    def look(_frame: Any, _event: str, _what: Any) -> Any:
        nonlocal count
        count += 1
        return look

    sys.settrace(look)
    try:
        keys.find_caller({b"x-api-key": given})
    finally:
        sys.settrace(None)
    return count


@pytest.mark.requirement("D-27")
@pytest.mark.parametrize("number", [7, 700])
def test_key_lookup_costs_the_same_for_every_key(number: int) -> None:
    keys = ApiKeyCallers([f"K{each}" for each in range(number)])
    steps = {count_steps(keys, given) for given in (b"K0", b"K3", b"K6", b"wrong", b"K" * 500)}
    assert len(steps) == 1
    assert steps == {count_steps(ApiKeyCallers(["K0"]), b"K0")}


@pytest.mark.requirement("D-27")
def test_api_keys_are_not_stored_as_text() -> None:
    keys = ApiKeyCallers(["a-key-of-some-length"])
    stored = [text for text in map(str, vars(keys).values()) if "a-key-of-some-length" in text]
    assert stored == []


@pytest.mark.requirement("D-27")
def test_secrets_are_equal_by_their_text_in_constant_time() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
