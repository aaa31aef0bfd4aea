"""Say how much of what users import has a type that every checker reads alike: at least 99 %.

``python -m spec.type_score`` installs a copy of the package in a folder of its own, because pyright looks only at
installed packages, and fails below the bound.
"""
# RE-06

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST = 0.99


def measure(folder: Path) -> float:
    """Return the share of known types of the package, of which ``folder`` gets a copy."""
    venv.create(folder, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    shutil.copytree(ROOT / "src" / "toolwire", packages / "toolwire", ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    pyright = Path(sys.executable).with_name("pyright")
    words = [pyright, "--ignoreexternal", "--verifytypes", "toolwire", "--outputjson"]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    score: float = json.loads(done.stdout)["typeCompleteness"]["completenessScore"]
    return score


def main() -> None:
    """Print the share, and exit with 1 below the bound."""
    with tempfile.TemporaryDirectory() as folder:
        score = measure(Path(folder))
    print(f"{score:.1%} of what users import has a known type; it must be {LEAST:.0%}")
    if score < LEAST:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
