"""Coverage-guided fuzzing of the readers, with atheris: ``make fuzz``, or with libFuzzer's options in ARGS.

What ends a run is kept by hand in ``tests/vectors/found``, where a test reads it for good.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import atheris

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
with atheris.instrument_imports(include=["toolwire"]):
    from fuzz.readers import READERS, read


def seeds(folder: Path) -> None:
    """Write what is known to be good into ``folder``, a file for each reader."""
    folder.mkdir(parents=True, exist_ok=True)
    known = [path.read_bytes() for path in (ROOT / "spec").rglob("*.json")]
    for vectors in sorted((ROOT / "tests" / "vectors").glob("*.json")):
        known += [json.dumps(one.get("body"), ensure_ascii=False).encode() for one in json.loads(vectors.read_bytes())]
    for number, text in enumerate(known):
        for reader in range(len(READERS)):
            (folder / f"{number}-{reader}").write_bytes(bytes([reader]) + text)


if __name__ == "__main__":
    corpus = ROOT / ".cache" / "fuzz"
    seeds(corpus)
    atheris.Setup([sys.argv[0], str(corpus), "-timeout=20", "-rss_limit_mb=4096", *sys.argv[1:]], read)
    atheris.Fuzz()
