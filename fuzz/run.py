"""Coverage-guided fuzzing of the readers, with atheris: ``make fuzz``, or with libFuzzer's options in ARGS.

What ends a run is kept by hand in ``tests/vectors/found``, where a test reads it for good.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import atheris

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
with atheris.instrument_imports(include=["toolwire"]):
    from fuzz.readers import READERS, read
from spec.runs import record_run  # noqa: E402 - the path first

INNER = "--in-this-process"
DONE = re.compile(r"Done (\d+) runs in (\d+) second")


def seeds(folder: Path) -> None:
    """Write what is known to be good into ``folder``, a file for each reader."""
    folder.mkdir(parents=True, exist_ok=True)
    known = [path.read_bytes() for path in (ROOT / "spec").rglob("*.json")]
    for vectors in sorted((ROOT / "tests" / "vectors").glob("*.json")):
        known += [json.dumps(one.get("body"), ensure_ascii=False).encode() for one in json.loads(vectors.read_bytes())]
    for number, text in enumerate(known):
        for reader in range(len(READERS)):
            (folder / f"{number}-{reader}").write_bytes(bytes([reader]) + text)


def fuzz(arguments: Sequence[str]) -> None:
    """Fuzz in this process, and end it: libFuzzer does not return."""
    corpus = ROOT / ".cache" / "fuzz"
    seeds(corpus)
    atheris.Setup([sys.argv[0], str(corpus), "-timeout=20", "-rss_limit_mb=4096", *arguments], read)
    atheris.Fuzz()


def main() -> int:
    """Fuzz in another process, print what it prints, and record how many inputs it read."""
    command = [sys.executable, __file__, INNER, *sys.argv[1:]]
    # Whoever runs this gives the options.
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - see above
        for line in process.stderr or ():
            sys.stderr.write(line)
            if done := DONE.search(line):
                figures = {"inputs": int(done[1]), "seconds": int(done[2]), "readers": len(READERS), "failures": 0}
                record_run("fuzz", "make fuzz", figures)
    return process.returncode


if __name__ == "__main__":
    if sys.argv[1:2] == [INNER]:
        fuzz(sys.argv[2:])
    sys.exit(main())
