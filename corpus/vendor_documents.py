"""OpenAPI documents that vendors publish in packages of npm of their own, and what is measured of them.

``python -m corpus.vendor_documents [--only TEXT]`` reads the documents that ``make vendor-documents`` fetched. It
counts the request examples that their own schema accepts and toolwire refuses, the tools without a valid call and
without a finding, and the example calls of ``toolwire show`` that do not fit. It fails if there is one of them.
"""
# O-29

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spec.runs import record_run
from toolwire.core.check import ALLOW
from toolwire.core.http import Request
from toolwire.core.model import Call, Tool
from toolwire.protocols.openapi.request import build_request
from toolwire.protocols.openapi.tools.operations import OperationState
from toolwire.validation import build_arguments_check
from toolwire.validation.example_arguments import build_example_arguments

from .bodies import judge_examples, judge_reach
from .documents import ROOT, documents_in
from .judge import operations_data, read
from .workers import each

FOLDER = ROOT / ".cache" / "vendor-documents"
_WANTED_ZERO = (
    *("bodies refused", "parameters refused", "least refused", "refused documents"),
    *("unreachable without a finding", "example calls that do not fit", "bodies of guides at fault"),
)
_GUIDES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    # README.md of @okta/okta-sdk-nodejs 8.1.0: the package of the document has no example of a request.
    "@okta+openapi@2.15.0/dist/spec.json": [
        (
            "createApplication",
            {
                "name": "template_basic_auth",
                "label": "Sample Basic Auth App",
                "signOnMode": "BASIC_AUTH",
                "settings": {
                    "app": {"url": "https://example.com/auth.htm", "authURL": "https://example.com/login.html"}
                },
            },
        ),
        (
            "createApplication",
            {
                "name": "bookmark",
                "label": "Sample Bookmark App",
                "signOnMode": "BOOKMARK",
                "settings": {"app": {"requestIntegration": False, "url": "https://example.com/bookmark.htm"}},
            },
        ),
    ]
}
"""Bodies that a vendor publishes elsewhere, by the document and the name of the tool."""

LISTED = Path(__file__).with_name("vendor_documents.json")


def list_documents() -> list[Path]:
    """Return the path of each listed document that was fetched."""
    packages = json.loads(LISTED.read_text())
    paths = [FOLDER / package.replace("/", "+") / one for package, files in packages.items() for one in files]
    return [path for path in paths if path.is_file()]


def judge_document(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what is known of one document: its counts, and each fault as a sentence."""
    text = path.read_bytes()
    finding = read(path, text)
    name = str(path.relative_to(FOLDER)) if path.is_relative_to(FOLDER) else path.name
    yield {"document": name}
    if finding.peer is None:
        yield {"document": name, "counts": {"refused documents": 1}, "faults": [finding.probes[-1].meaning]}
        return
    tools, memo = finding.peer.catalog.tools, finding.peer.memo
    assert isinstance(memo, OperationState)
    document = operations_data(text)
    counts: Counter[str] = Counter({"documents": 1, "tools": len(tools), "operations": memo.operations})
    counts["operations without a tool, each with a finding"] = sum(note.operations for note in memo.notes)
    faults = list(judge_examples(document, tools, memo.plans, name, counts))
    faults += judge_reach(document, tools, memo, name, counts)
    for tool in tools:
        arguments = build_example_arguments(tool)
        verdict = build_arguments_check()(Call(tool, arguments))
        counts["example calls of toolwire show"] += 1
        if verdict is not ALLOW:
            counts["example calls that do not fit"] += 1
            faults.append(f"{tool.name}: its example call {json.dumps(arguments)[:300]} does not fit: {verdict}"[:800])
    for wanted, body in _GUIDES.get(name, ()):
        counts["bodies of guides"] += 1
        fault = _judge_guide(wanted, body, tools, memo)
        if fault:
            counts["bodies of guides at fault"] += 1
            faults.append(f"{wanted}: the body {json.dumps(body)[:300]} of a guide {fault}")
    yield {"document": name, "counts": dict(counts), "faults": faults}


def _judge_guide(name: str, body: dict[str, Any], tools: Sequence[Tool], memo: OperationState) -> str:
    """Return what is wrong where ``body`` is given to the tool called ``name``; empty if it is sent as it is."""
    tool = next((one for one in tools if one.name == name), None)
    if tool is None:
        return "has no tool"
    if build_arguments_check()(Call(tool, body)) is not ALLOW:
        return "is refused"
    request = build_request.build_request(memo.plans[tool.id], body)
    is_sent = isinstance(request, Request) and json.loads(request.body) == body
    return "" if is_sent else "is sent otherwise"


def main() -> int:
    """Print the figures and each fault; 1 where there is a fault, 2 without documents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="read only documents with this text in their path; record nothing")
    parser.add_argument("--folder", type=Path, help="read the documents of this folder instead; record nothing")
    options = parser.parse_args()
    every = list_documents() if options.folder is None else documents_in(options.folder)
    paths = [path for path in every if options.only in str(path)]
    if not paths:
        print("vendor-documents: there are no documents: run make vendor-documents.", file=sys.stderr)
        return 2
    totals: Counter[str] = Counter()
    number = 0
    for said in each(sorted(paths, key=lambda path: -path.stat().st_size), judge_document):
        totals.update(said.get("counts", {}))
        number += len(said["faults"])
        totals["documents with a fault"] += bool(said["faults"])
        print(f"{said['document']}: {said.get('counts', {})}", flush=True)
        for fault in said["faults"][:20]:
            print(f"  {fault}", flush=True)
    # What did not occur is written too: it is what this run is about.
    for name in (*_WANTED_ZERO, "documents with a fault"):
        totals[name] += 0
    for name, count in sorted(totals.items()):
        print(f"{name}: {count:,}")
    if options.folder is None and not options.only:
        record_run("vendor-documents", "make vendor-documents", totals, passed=not number)
    return 1 if number else 0


if __name__ == "__main__":
    raise SystemExit(main())
