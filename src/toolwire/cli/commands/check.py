"""``toolwire check``: everything that is wrong with documents, each fault with its line and column."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from toolwire.cli.exits import FAILED, OK, USAGE
from toolwire.cli.terminal.screen import complain, escaped, json_text, styled
from toolwire.core.model import Json, Problem
from toolwire.core.url_display import show_urls
from toolwire.framing.text_faults import Fault
from toolwire.protocols.openapi import validator as openapi
from toolwire.protocols.openapi.document import loading
from toolwire.protocols.opentool import validator as opentool
from toolwire.protocols.otc import validator as otc

Checker: TypeAlias = Callable[[bytes], Sequence[Fault]]

_CHECKERS: Final[Mapping[str, Checker]] = MappingProxyType(
    {"opentool": opentool.check, "otc": otc.check, "openapi": openapi.check, "llm": openapi.check_llm}
)
"""What is checked, by kind; another kind is another row here, and in the signs below."""

_SIGNS: Final = (
    ("opentool", ("opentool", "functions")),
    ("openapi", ("paths", "components", "webhooks", "swagger")),
    ("llm", ("openapi",)),
    ("otc", ("tools", "items", "input_schema")),
)
"""The members that a document of each kind has at its top; the first kind with one of them is taken."""

_STYLES: Final = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file and its faults, or why it was not checked."""

    file: str
    faults: Sequence[Fault] = ()
    refusal: str = ""


def run(arguments: argparse.Namespace) -> int:
    """Check the files and print what is wrong with them; a file that cannot be checked does not stop the others."""
    checked = [_check(file, arguments.kind) for file in arguments.files]
    if arguments.json:
        print(json_text(_as_json(checked), indent=2))
    else:
        _print(checked)
    for one in checked:
        if one.refusal:
            complain(f"{one.file}: {one.refusal}")
    if any(one.refusal for one in checked):
        return USAGE
    is_bad = any(fault.severity == "error" or arguments.strict for one in checked for fault in one.faults)
    return FAILED if is_bad else OK


def kind_of(text: bytes, name: str = "") -> str | None:
    """Return the kind of document that ``text``, from the file ``name``, is by its members, or None.

    What is no object is taken for OpenTool, whose checker says what is wrong with it; unreadable YAML for OpenAPI.
    """
    data, written_as = loading.read(text, name=name)
    if not isinstance(data, dict):
        return "openapi" if written_as == "YAML" and isinstance(data, Problem) else "opentool"
    return next((kind for kind, names in _SIGNS if any(name in data for name in names)), None)


def _check(file: str, wanted: str | None) -> CheckedFile:
    try:
        with Path(file).open("rb") as opened:
            text = opened.read(openapi.MAX_BYTES + 1)  # one more than it reads: it says so itself
    except OSError as error:
        return CheckedFile(file, refusal=f"it cannot be read: {error.strerror}.")
    kind = wanted or kind_of(text, file)
    if kind is None:
        return CheckedFile(file, refusal="it does not say what kind of document it is: give one with --kind.")
    return CheckedFile(file, openapi.check(text, file) if kind == "openapi" else _CHECKERS[kind](text))


def _print(checked: Sequence[CheckedFile]) -> None:
    for line in _lines(checked):
        print(line)
    print(_summary(checked))


def _lines(checked: Sequence[CheckedFile]) -> Iterator[str]:
    for one in checked:
        for fault in one.faults:
            severity = styled(fault.severity, _STYLES[fault.severity], sys.stdout)
            where = f"{escaped(one.file)}:{fault.line}:{fault.column}"
            at = f" {escaped(fault.pointer)}" if fault.pointer else ""
            yield f"{where}: {severity} [{fault.rule}]{at}: {escaped(fault.message)}"


def _summary(checked: Sequence[CheckedFile]) -> str:
    read = [one for one in checked if not one.refusal]
    said = [_count(_number(read, "error"), "error"), _count(_number(read, "warning"), "warning")]
    return f"{_count(len(read), 'file')} checked: {', '.join(said)}."


def _as_json(checked: Sequence[CheckedFile]) -> dict[str, Json]:
    return {
        "files": len(checked),
        "errors": _number(checked, "error"),
        "warnings": _number(checked, "warning"),
        "faults": [{"file": one.file} | fault._asdict() for one in checked for fault in one.faults],
        "not_checked": [{"file": show_urls(one.file), "reason": one.refusal} for one in checked if one.refusal],
    }


def _number(checked: Sequence[CheckedFile], severity: str) -> int:
    return sum(fault.severity == severity for one in checked for fault in one.faults)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
