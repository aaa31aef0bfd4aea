"""Write faults as SARIF 2.1.0, which code hosts show beside the lines that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from toolwire import __version__
from toolwire.core.model import Json
from toolwire.framing.text_faults import Fault
from toolwire.testing.tool_checks import RULES


def write_sarif(files: Iterable[tuple[str, Sequence[Fault]]]) -> dict[str, Json]:
    """Return one run with a result for each fault of ``files``: a path, relative or absolute, and its faults."""
    # FD-05, SARIF 3.13, 3.14 and 3.27
    results = [_write_result(file, fault) for file, faults in files for fault in faults]
    names = sorted({str(one["ruleId"]) for one in results})
    rules: list[Json] = [{"id": name, "shortDescription": {"text": RULES.get(name, name)}} for name in names]
    driver: dict[str, Json] = {"name": "toolwire", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [*results]}],
    }


def _write_result(file: str, fault: Fault) -> dict[str, Json]:
    path = Path(file)
    uri = path.as_uri() if path.is_absolute() else path.as_posix()
    region: dict[str, Json] = {"startLine": fault.line, "startColumn": fault.column}
    place: dict[str, Json] = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
    if fault.pointer:
        place["logicalLocations"] = [{"fullyQualifiedName": fault.pointer}]
    return {"ruleId": fault.rule, "level": fault.severity, "message": {"text": fault.message}, "locations": [place]}
