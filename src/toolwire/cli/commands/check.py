"""``toolwire check``: print every fault of documents and of tools in Python files, with line and column."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from toolwire import __version__
from toolwire.cli.exits import FAILED, OK, USAGE
from toolwire.cli.terminal.screen import apply_style, escaped, json_text, print_error, write_count
from toolwire.core.errors import ToolwireError
from toolwire.core.model import Json, Problem
from toolwire.core.url_display import show_urls
from toolwire.define.toolkit import Toolkit
from toolwire.framing.text_faults import Fault
from toolwire.hosting.targets.load_code import load_code
from toolwire.hosting.targets.target import FileTarget, read_target
from toolwire.protocols.openapi import overlay_check
from toolwire.protocols.openapi import validator as openapi
from toolwire.protocols.openapi.document import loading
from toolwire.protocols.openapi.overlay_check import OverlayTarget
from toolwire.protocols.opentool import validator as opentool
from toolwire.protocols.otc import validator as otc
from toolwire.testing.tool_checks import RULES, check_tools, compute_score

Checker: TypeAlias = Callable[[bytes], Sequence[Fault]]

_CHECKERS: Final[Mapping[str, Checker]] = MappingProxyType(
    {
        "opentool": opentool.check,
        "otc": otc.check,
        "openapi": openapi.check,
        "llm": openapi.check_llm,
        "overlay": overlay_check.check,
    }
)
"""The checker of each kind of document. A new kind is a row here and one in ``_SIGNS``."""

_SIGNS: Final = (
    ("overlay", ("overlay", "actions")),
    ("opentool", ("opentool", "functions")),
    ("openapi", ("paths", "components", "webhooks", "swagger")),
    ("llm", ("openapi",)),
    ("otc", ("tools", "items", "input_schema")),
)
"""The members that tell the kind of a document. The first kind with one of them is chosen."""

_OPENAPI_VERSION: Final = re.compile(r"\d+\.\d")
_CODE: Final = re.compile(r"\.py(:\w+)?\Z")
_STYLES: Final = {"error": "red", "warning": "yellow"}


class ReadFile(NamedTuple):
    """The text of a file, and the kind of the document in it."""

    file: str
    text: bytes
    kind: str


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file and its faults, or why it was not checked. Only a file of tools has a score, from 0 to 100."""

    file: str
    faults: Sequence[Fault] = ()
    refusal: str = ""
    score: int | None = None


def run(arguments: argparse.Namespace) -> int:
    """Check the files and print their faults. A file that cannot be read does not stop the others."""
    read = [
        _check_code(file) if _CODE.search(file) and not arguments.kind else _read(file, arguments.kind)
        for file in arguments.files
    ]
    read += [_read(file, "overlay") for file in arguments.overlay]
    documents = _list_openapi_documents(read)
    checked = [one if isinstance(one, CheckedFile) else _check(one, documents) for one in read]
    if arguments.sarif:
        print(json_text(_write_sarif([(one.file, one.faults) for one in checked]), indent=2))
    elif arguments.json:
        print(json_text(_as_json(checked), indent=2))
    else:
        print("\n".join([*_list_lines(checked), _summarize(checked)]))
    for one in checked:
        if one.refusal:
            print_error(f"{one.file}: {one.refusal}")
    if any(one.refusal for one in checked):
        return USAGE
    is_bad = any(fault.severity == "error" or arguments.strict for one in checked for fault in one.faults)
    return FAILED if is_bad else OK


def detect_kind(text: bytes, name: str = "") -> str | None:
    """Return the kind of the document ``text`` of the file ``name``, by its members, or None.

    Without a JSON object it is OpenTool, whose checker reports the fault; YAML that cannot be read is OpenAPI.
    """
    data, written_as = loading.read_data(text, name=name)
    if not isinstance(data, dict):
        return "openapi" if written_as == "YAML" and isinstance(data, Problem) else "opentool"
    kind = next((kind for kind, names in _SIGNS if any(name in data for name in names)), None)
    # O-38: an OpenAPI document may have no paths; in llm.json the member is an address.
    return "openapi" if kind == "llm" and _OPENAPI_VERSION.match(str(data["openapi"])) else kind


def _check_code(text: str) -> CheckedFile:
    """Check the tools of a Python file, whose code runs as in an import."""
    # FD-05
    target = read_target(text)
    if not isinstance(target, FileTarget):
        return CheckedFile(show_urls(text), refusal="check reads the files of this machine.")
    try:
        found = load_code(target)
    except ToolwireError as error:
        return CheckedFile(str(target.path), refusal=str(error))
    if not isinstance(found, Toolkit):
        return CheckedFile(str(target.path), refusal="it has no Toolkit: check its OpenTool document instead.")
    faults = check_tools(found.functions)
    return CheckedFile(str(target.path), faults, score=compute_score(found.functions, faults))


def _read(file: str, wanted: str | None) -> ReadFile | CheckedFile:
    """Return the text and the kind of a file, or why it is not checked."""
    if "://" in file:
        why = "check reads files: save the document first, or check the server itself with `toolwire conform`."
        return CheckedFile(show_urls(file), refusal=why)
    try:
        with Path(file).open("rb") as opened:
            text = opened.read(openapi.MAX_BYTES + 1)  # one byte more than the limit: the checker reports it
    except OSError as error:
        return CheckedFile(file, refusal=f"it cannot be read: {error.strerror}.")
    kind = wanted or detect_kind(text, file)
    if kind is None:
        return CheckedFile(file, refusal="it does not say what kind of document it is: give one with --kind.")
    return ReadFile(file, text, kind)


def _list_openapi_documents(files: Sequence[ReadFile | CheckedFile]) -> Sequence[OverlayTarget]:
    """Return the OpenAPI documents among ``files``, if there are overlays to compare with them."""
    read = [one for one in files if isinstance(one, ReadFile)]
    if all(one.kind != "overlay" for one in read):
        return ()
    found = [(one.file, loading.read_data(one.text, name=one.file).data) for one in read if one.kind == "openapi"]
    return [OverlayTarget(name, data) for name, data in found if not isinstance(data, Problem)]


def _check(read: ReadFile, documents: Sequence[OverlayTarget]) -> CheckedFile:
    file, text, kind = read
    match kind:
        case "openapi":
            return CheckedFile(file, openapi.check(text, file))
        case "overlay":
            return CheckedFile(file, overlay_check.check(text, file, documents))
        case _:
            return CheckedFile(file, _CHECKERS[kind](text))


def _list_lines(checked: Sequence[CheckedFile]) -> Iterator[str]:
    for one in checked:
        for fault in one.faults:
            severity = apply_style(fault.severity, _STYLES[fault.severity], sys.stdout)
            where = f"{escaped(one.file)}:{fault.line}:{fault.column}"
            at = f" {escaped(fault.pointer)}" if fault.pointer else ""
            yield f"{where}: {severity} [{fault.rule}]{at}: {escaped(fault.message)}"


def _summarize(checked: Sequence[CheckedFile]) -> str:
    read = [one for one in checked if not one.refusal]
    counts = [write_count(_count_faults(read, severity), severity) for severity in ("error", "warning")]
    scores = [f"{escaped(one.file)}: {one.score} of 100" for one in read if one.score is not None]
    score = f" Tool score: {', '.join(scores)}." if scores else ""
    return f"{write_count(len(read), 'file')} checked: {', '.join(counts)}.{score}"


def _as_json(checked: Sequence[CheckedFile]) -> dict[str, Json]:
    return {
        "files": len(checked),
        "errors": _count_faults(checked, "error"),
        "warnings": _count_faults(checked, "warning"),
        "faults": [{"file": one.file} | fault._asdict() for one in checked for fault in one.faults],
        "scores": {one.file: one.score for one in checked if one.score is not None},
        "not_checked": [{"file": show_urls(one.file), "reason": one.refusal} for one in checked if one.refusal],
    }


def _count_faults(checked: Sequence[CheckedFile], severity: str) -> int:
    return sum(fault.severity == severity for one in checked for fault in one.faults)


def _write_sarif(files: Iterable[tuple[str, Sequence[Fault]]]) -> dict[str, Json]:
    """Return one run with a result for each fault of ``files``: a path, relative or absolute, and its faults."""
    # FD-05, SARIF 3.13, 3.14 and 3.27
    results = [_write_sarif_result(file, fault) for file, faults in files for fault in faults]
    names = sorted({str(one["ruleId"]) for one in results})
    rules: list[Json] = [{"id": name, "shortDescription": {"text": RULES.get(name, name)}} for name in names]
    driver: dict[str, Json] = {"name": "toolwire", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [*results]}],
    }


def _write_sarif_result(file: str, fault: Fault) -> dict[str, Json]:
    path = Path(file)
    uri = path.as_uri() if path.is_absolute() else path.as_posix()
    region: dict[str, Json] = {"startLine": fault.line, "startColumn": fault.column}
    place: dict[str, Json] = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
    if fault.pointer:
        place["logicalLocations"] = [{"fullyQualifiedName": fault.pointer}]
    return {"ruleId": fault.rule, "level": fault.severity, "message": {"text": fault.message}, "locations": [place]}
