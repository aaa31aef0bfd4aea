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
from toolwire.server.keys import Keys

SOURCE = Path(toolwire.__file__).parent
SECRET = re.compile(r"^_?(?:secret|password|signature|verifier|api_?key|token_text|credential)s?$")


def compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
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
def test_no_secret_is_compared_but_in_constant_time() -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{line}: {text}"
        for file in sorted(SOURCE.rglob("*.py"))
        for line, text in compared(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    ["a.reveal() == b", "b != a.reveal().encode()", "sha256(x).digest() == y", "self._secret == x", "password == x"],
)
def test_the_check_finds_what_it_looks_for(code: str) -> None:
    assert [*compared(ast.parse(code))]


def comparisons(keys: Keys, given: bytes) -> int:
    """Return how many comparisons looking up ``given`` takes."""
    count = 0

    def look(_frame: Any, event: str, called: Any) -> None:
        nonlocal count
        count += event == "c_call" and getattr(called, "__name__", "") in ("compare_digest", "_compare_digest")

    sys.setprofile(look)
    try:
        keys.known({b"x-api-key": given})
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.requirement("D-27")
def test_every_key_is_compared_whichever_it_is_and_where_it_is_none() -> None:
    keys = Keys([f"K{number}" for number in range(7)])
    assert {comparisons(keys, given) for given in (b"K0", b"K3", b"K6", b"wrong", b"K" * 500)} == {7}


@pytest.mark.requirement("D-27")
def test_secrets_are_equal_by_their_text_in_constant_time() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
