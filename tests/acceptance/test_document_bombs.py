"""Documents that try to cost more than their size: each command works on them within a bound of processor time."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.document_bombs import ALL_KINDS, BOMBS, CPU_S, mcp, openapi, opentool, otc
from toolwire import Problem
from toolwire.validation import compile_schema
from toolwire.validation.cost import SchemaCost

MAX_BYTES: Final = 16_000_000


CHILD: Final = """
import json, sys
from toolwire.cli import main
sys.set_int_max_str_digits(0)
for argv in json.loads(sys.argv[1]):
    try:
        code = main(argv)
    except SystemExit as end:
        code = end.code
    print(f"DONE {code}", flush=True)
"""


@pytest.mark.requirement("D-17", "D-15", "AT-02")
@pytest.mark.parametrize("bomb", BOMBS)
def test_cost_of_a_document_is_proportional_to_its_size(bomb: str, tmp_path: Path) -> None:
    commands: list[list[str]] = []
    written: list[Path] = []
    for wire, kinds in ((openapi, ("opentool",)), (opentool, ("mcp",)), (otc, ("openapi",)), (mcp, ("opentool",))):
        path = tmp_path / f"{wire.__name__}.json"
        path.write_text(json.dumps(wire(BOMBS[bomb])))
        commands.append(["check", str(path)])
        for kind in ALL_KINDS or kinds:
            written.append(tmp_path / f"{wire.__name__}-{kind}.json")
            commands.append(["convert", str(path), "--to", kind, "--output", str(written[-1])])
    limit = (resource.RLIMIT_CPU, (CPU_S, CPU_S))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(*limit),
    )
    assert (done.stdout.count("DONE "), "Traceback" in done.stderr) == (len(commands), False)
    assert max((path.stat().st_size for path in written if path.exists()), default=0) < MAX_BYTES


@pytest.mark.requirement("D-17")
def test_validation_errors_do_not_copy_large_values() -> None:
    cost = SchemaCost(BOMBS["required"])
    assert cost.allows_errors({})
    assert not cost.allows_errors({"x": [[]] * 1_000})
    problem = compile_schema(BOMBS["required"])({"x": [[]] * 1_000})
    assert isinstance(problem, Problem)
    assert "is required" in problem.message
