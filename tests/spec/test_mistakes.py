"""What ``make mutants`` does, in short: each kind of mistake once, and a few in one room."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from mutants.mistakes import find_places, make_mistake

ROOT = Path(__file__).resolve().parents[2]


def list_mistakes(code: str) -> dict[str, list[str]]:
    """Return the code with each mistake that can be made in the body of a function, by kind."""
    whole = "def f():\n" + "".join(f"    {line}\n" for line in code.splitlines())
    found: dict[str, list[str]] = {}
    for number in range(len(find_places(ast.parse(whole)))):
        tree = ast.parse(whole)
        place = find_places(tree)[number]
        make_mistake(place)
        compile(tree, "f.py", "exec")
        [function] = tree.body
        assert isinstance(function, ast.FunctionDef)
        found.setdefault(place.kind, []).append("\n".join(map(ast.unparse, function.body)))
    return found


@pytest.mark.requirement("TE-04")
@pytest.mark.parametrize(
    ("code", "kind", "wrong"),
    [
        ("x = a < b", "compare", "x = a <= b"),
        ("x = a and b", "and/or", "x = a or b"),
        ("x = not a", "not", "x = bool(a)"),
        ("x = a + b", "arithmetic", "x = a - b"),
        ("x = a if b else c", "always", "x = a if True else c"),
        ("x = a if b else c", "never", "x = a if False else c"),
        ("x = True", "true/false", "x = False"),
        ("x = 1", "number", "x = 2"),
        ("x = 64", "number", "x = 128"),
        ("x = 'word'", "word", "x = 'xword'"),
        ("g(a, b, c)", "swapped", "g(b, a, c)"),
        ("x = escape(a)", "argument alone", "x = a"),
        ("g(a, b=c)", "keyword left out", "g(a)"),
        ("g(a)", "left out", "pass"),
        ("self.a = b", "left out", "pass"),
        ("raise KeyError", "left out", "pass"),
        ("return a", "return None", "return"),
        ("try:\n    a\nexcept B:\n    c", "not caught", "try:\n    a\nexcept B:\n    raise"),
        ("try:\n    a\nfinally:\n    b", "no finally", "try:\n    a\nfinally:\n    pass"),
    ],
)
def test_each_kind_of_mistake_is_made(code: str, kind: str, wrong: str) -> None:
    assert wrong in list_mistakes(code)[kind]


@pytest.mark.requirement("TE-04")
@pytest.mark.parametrize(
    "code",
    [
        '"""What it is for."""',
        "_LOG.info('read', a, extra=b)",
        "x = 'a sentence of several words'",
        "x: Literal['a'] = y",
        "assert a is not None",
        "if TYPE_CHECKING:\n    g(a)",
        "raise NotImplementedError",
        "x = Html(a)",
    ],
)
def test_what_no_user_can_notice_is_left_alone(code: str) -> None:
    assert list_mistakes(code) == {}


@pytest.mark.requirement("TE-04")
def test_mistakes_are_drawn_with_a_seed_and_survivors_are_listed() -> None:
    command = [sys.executable, "mutants/run.py", "--each", "8", "--seed", "1", "find"]  # a room with few tests
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=230, check=False)
    first, *_ = ran.stdout.splitlines()
    assert first == "seed 1"
    [summary] = [line for line in ran.stdout.splitlines() if line.startswith("find: ") and "noticed" in line]
    survivors = [line for line in ran.stdout.splitlines() if line.startswith("  find/")]
    assert summary == f"find: {8 - len(survivors)} of 8 noticed", ran.stdout + ran.stderr
    assert len(survivors) < 8, ran.stdout
