"""A sample of small mistakes in the code that guards, one at a time: how many of them do the tests notice? [R19]

``python mutants/run.py [--each N] [--seed S] [FILE...]``; the code is changed in a copy, never in place.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from spec.runs import record_run  # noqa: E402 - the path first

LONGEST_S = 300
GUARDS: dict[str, tuple[str, ...]] = {
    "core/ledger.py": ("tests/core/test_ledger.py", "tests/stores/test_ledgers.py"),
    "stores/ledger/memory.py": ("tests/stores/test_ledgers.py", "tests/stores/test_ledger_memory.py"),
    "stores/ledger/sql_calls.py": ("tests/stores/test_ledgers.py",),
    "consent/policy.py": ("tests/consent",),
    "consent/consent_check.py": ("tests/consent", "tests/story/test_consent.py"),
    "consent/binding.py": ("tests/consent", "tests/client/test_call_pipeline.py"),
    "consent/cost_budget.py": ("tests/consent", "tests/client/test_call_pipeline.py"),
    "client/calls/agreements.py": ("tests/client/test_call_pipeline.py", "tests/client/test_refresh.py"),
    "client/calls/questions.py": ("tests/client/test_call_pipeline.py", "tests/client/test_refresh.py"),
    "server/access/api_keys.py": ("tests/server/test_keys.py", "tests/server/test_scopes.py"),
    "server/access/signed_tokens.py": ("tests/server/test_jwt.py",),
    "server/run/confirmation.py": (
        "tests/server/test_confirming.py",
        "tests/server/test_receipts.py",
        "tests/interop/test_mcp_inbox.py",
    ),
    "auth/receipt.py": ("tests/server/test_receipts.py", "tests/cli/test_receipts.py"),
    "auth/caller_token.py": ("tests/server/test_jwt.py",),
    "limits/window.py": ("tests/limits/test_window.py", "tests/limits/test_clock_jumps.py"),
    "limits/throttle.py": ("tests/limits/test_throttle.py",),
}
"""What guards, and the tests that should notice."""

EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("stores/ledger/memory.py", "compare", "len(fingerprint) > _MAX_PLAIN_FINGERPRINT"): (
        "a fingerprint of exactly this length is kept as it is or by its digest, and both tell calls apart"
    ),
    ("limits/window.py", "and/or", "window.limit is not limit and window.limit != limit"): (
        "setting an equal limit again changes nothing; the first comparison is there for its speed"
    ),
    ("limits/throttle.py", "always", "limits"): "taking from no window is 0.0 as well; the branch saves a lock",
    (
        "limits/throttle.py",
        "always",
        "len(self._known) >= _TOOLS",
    ): "a table of what can be computed again: only slower",
    ("limits/throttle.py", "always", "known is None or known[0] is not tool"): "the same limits, listed again",
}
"""Mistakes that change nothing which a caller can see, by file, kind and place, with the reason: others take their
place in a sample."""

OPPOSITE: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip


def mistakes(tree: ast.Module) -> Iterator[tuple[int, str, ast.Module]]:
    """Yield the line and the kind of each mistake that is tried, and the module that has it."""
    decorators = [one for node in ast.walk(tree) for one in getattr(node, "decorator_list", ())]
    idle = {id(part) for one in decorators for part in ast.walk(one)}  # slots=False changes nothing that can be seen
    for number, node in enumerate(ast.walk(tree)):
        for kind in kinds(node) if id(node) not in idle else ():
            changed = copy.deepcopy(tree)
            spot = next(one for place, one in enumerate(ast.walk(changed)) if place == number)
            make(spot, kind)
            yield getattr(node, "lineno", 0), kind, ast.fix_missing_locations(changed)


def kinds(node: ast.AST) -> list[str]:
    """Return the mistakes that can be made at ``node``."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in OPPOSITE:
            return ["compare"]
        case ast.BoolOp():
            return ["and/or"]
        case ast.UnaryOp(op=ast.Not()):
            return ["not"]
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=ast.Name() | ast.Attribute()):
            return ["plus/minus"]
        case ast.If() | ast.IfExp():
            return ["always", "never"]
        case ast.Constant(value=bool()):
            return ["true/false"]
        case _:
            return []


def make(node: ast.AST, kind: str) -> None:
    """Make the mistake ``kind`` at ``node``."""
    match node, kind:
        case ast.Compare(), _:
            node.ops = [OPPOSITE[type(node.ops[0])]()]  # type: ignore[list-item]  # the table holds operators
        case ((ast.BoolOp() | ast.BinOp()), _):
            node.op = OPPOSITE[type(node.op)]()  # type: ignore[assignment]  # likewise
        case ast.UnaryOp(), _:
            node.op = ast.UAdd()
            node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
        case ((ast.If() | ast.IfExp()), _):
            node.test = ast.Constant(kind == "always")
        case ast.Constant(), _:
            node.value = not node.value


def find_equivalents(name: str, tree: ast.Module) -> list[tuple[int, str]]:
    """Return the line and kind of each mistake in the file ``name`` that changes nothing, as ``EQUIVALENT`` says."""
    return [
        (node.lineno, kind)
        for node in ast.walk(tree)
        for kind in kinds(node)
        if isinstance(node, ast.expr | ast.stmt) and (name, kind, write_place(node)) in EQUIVALENT
    ]


def write_place(node: ast.AST) -> str:
    """Return the code at ``node`` that a mistake is about: the condition of a branch, else all of it."""
    return ast.unparse(node.test if isinstance(node, ast.If | ast.IfExp) else node)


def draw(name: str, tree: ast.Module, number: int, chance: random.Random) -> list[tuple[int, str, ast.Module]]:
    """Return ``number`` mistakes, or all there are, without those that change nothing."""
    every = list(mistakes(tree))
    idle = find_equivalents(name, tree)
    drawn = chance.sample(every, min(number, len(every)))
    kept = [one for one in drawn if one[:2] not in idle]
    others = [one for one in every if one not in drawn and one[:2] not in idle]
    return kept + random.Random(name).sample(others, min(len(drawn) - len(kept), len(others)))


def noticed(copied: Path, tests: tuple[str, ...]) -> bool:
    """Return whether ``tests`` fail with the code in ``copied``, or take too long."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> int:
    """Try the sample and print the score; 1 where it is below 85 percent, or tests fail without any mistake."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=6, help="the number of mistakes for each file (6)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("files", nargs="*", help="the files to put mistakes into (all)")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    tried = found = 0
    broken: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder)
        shutil.copytree(ROOT / "src" / "toolwire", copied / "toolwire", ignore=shutil.ignore_patterns("__pycache__"))
        for name, tests in GUARDS.items():
            if options.files and name not in options.files:
                continue
            file = copied / "toolwire" / name
            whole = file.read_text("utf-8")
            if noticed(copied, tests):
                print(f"{name}: its tests fail without any mistake", flush=True)
                broken.append(name)
                continue
            for line, kind, changed in draw(name, ast.parse(whole), options.each, chance):
                file.write_text(ast.unparse(changed), "utf-8")
                tried += 1
                if noticed(copied, tests):
                    found += 1
                else:
                    print(f"{name}:{line}: {kind} goes unnoticed", flush=True)
            file.write_text(whole, "utf-8")
    score = 100 * found / max(tried, 1)
    print(f"{found} of {tried} mistakes noticed: {score:.0f}%")
    good = score >= 85 and not broken
    if not options.files:
        figures = {"mistakes": tried, "noticed": found, "percent": round(score, 1)}
        record_run("mutants", "make mutants", figures, passed=good)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
