"""Who may import whom is kept by the test run, not by habit."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_ring_imports_only_the_rings_below_it() -> None:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_toolwire_loads_neither_a_web_framework_nor_an_http_client() -> None:
    program = (
        "import sys, toolwire\n"
        "heavy = {'httptools', 'uvicorn', 'httptools', 'pydantic', 'anyio', 'jsonschema_rs', 'ssl', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_had() -> None:
    program = (
        "import toolwire\n"
        "assert set(toolwire.__all__) <= set(dir(toolwire))\n"
        "print([name for name in toolwire.__all__ if getattr(toolwire, name) is None])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
