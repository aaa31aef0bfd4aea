"""``toolwire convert``: any source, any kind, what is lost on standard error, and nothing half written."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

VECTOR = Path(__file__).parents[1] / "vectors" / "opentool" / "sdk_dart_mock_tool.json"
KINDS = ("opentool", "otc", "oxp", "openapi", "mcp")


@pytest.mark.parametrize("kind", KINDS)
def test_converted_document_is_restored_byte_for_byte(kind: str, tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    there, back = tmp_path / "there.json", tmp_path / "back.json"
    assert toolwire("convert", VECTOR, "--to", kind, "-o", there).code == 0
    assert toolwire("convert", there, "--to", "opentool", "-o", back).code == 0
    assert back.read_bytes() == VECTOR.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["back.json", "there.json"]


@pytest.mark.parametrize("kind", KINDS)
def test_code_becomes_a_document_of_every_kind(kind: str, desk: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("convert", desk, "--to", kind)
    assert outcome.code == 0
    assert "Add two numbers." in json.dumps(json.loads(outcome.out))


def test_url_converts_the_document_behind_it(site: str, toolwire: Callable[..., Any]) -> None:
    for protocol in ("openapi", "mcp"):
        outcome = toolwire("convert", site, "--to", "otc", "--protocol", protocol)
        assert (outcome.code, outcome.err) == (0, "")
        assert "shred" in [one["name"] for one in json.loads(outcome.out)["tools"]]


def test_losses_are_printed_and_written_as_json(tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    losses = tmp_path / "losses.json"
    outcome = toolwire("convert", VECTOR, "--to", "otc", "--losses", losses)
    assert outcome.code == 0
    line = "/functions/3/stream/data: the schema of what is streamed; the word that it streams stands for it\n"
    assert outcome.err == line
    assert json.loads(losses.read_text()) == [
        {
            "pointer": "/functions/3/stream/data",
            "what": "the schema of what is streamed",
            "instead": "the word that it streams",
        }
    ]


def test_strict_writes_no_document_if_anything_is_lost(tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    target = tmp_path / "out.json"
    target.write_text("as it was")
    outcome = toolwire("convert", VECTOR, "--to", "otc", "--strict", "-o", target, "--force")
    assert outcome.code == 1
    assert target.read_text() == "as it was"
    assert "1 loss found, and --strict allows none. No document was written." in outcome.err
    assert toolwire("convert", VECTOR, "--to", "oxp", "--strict").out == ""


def test_strict_conversion_succeeds_without_losses(desk: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("convert", desk, "--to", "opentool", "--strict")
    assert (outcome.code, outcome.err) == (0, "")


def test_a_dash_is_standard_input(toolwire: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(VECTOR.read_bytes())))
    outcome = toolwire("convert", "-", "--to", "mcp")
    assert [tool["name"] for tool in json.loads(outcome.out)["tools"]][:2] == ["count", "create"]


def test_foreign_text_cannot_control_the_terminal(write: Callable[..., Path], toolwire: Callable[..., Any]) -> None:
    function = {"name": "f\u202e", "description": "d", "parameters": []}
    file = write("odd.json", json.dumps({"opentool": "1.1.0", "info": {"title": "T"}, "functions": [function]}))
    assert "\u202e" not in toolwire("convert", file, "--to", "oxp").err


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (("nothing.json", "--to", "otc"), "File not found: nothing.json."),
        (("{odd}", "--to", "otc"), "Unknown document type. It must be one of"),
        (("{odd}", "--to", "otc", "--kind", "opentool"), "This is not a opentool document."),
        (
            ("{odd}", "--to", "otc", "--protocol", "mcp"),
            ("--key, --key-env and --protocol need a URL, but this source is a file"),
        ),
        (("{vector}", "--to", "soap"), "invalid choice: 'soap'"),
        (("{vector}",), "The following arguments are required: --to"),
        (("{vector}", "--to", "otc", "--force"), "--force needs --output FILE or --losses FILE."),
        (("{vector}", "--to", "otc", "--losses", "/"), "/ is a folder. Give --losses a file name."),
        (
            ("{vector}", "--to", "otc", "-o", "/nowhere/at/all.json"),
            "Cannot write /nowhere/at/all.json: the folder /nowhere/at does not exist.",
        ),
    ],
)
def test_invalid_conversion_request_is_a_usage_error(
    argv: tuple[str, ...], sentence: str, write: Callable[..., Path], toolwire: Callable[..., Any]
) -> None:
    odd = write("odd.json", "{}")
    outcome = toolwire("convert", *(word.format(odd=odd, vector=VECTOR) for word in argv))
    assert outcome.code == 2
    assert outcome.out == ""
    assert sentence in outcome.err


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    file = tmp_path / "large.json"
    with file.open("wb") as large:
        large.truncate(65 * 1024 * 1024)
    outcome = toolwire("convert", file, "--to", "otc")
    assert (outcome.code, "is larger than 67,108,864 bytes" in outcome.err) == (2, True)


@pytest.mark.requirement("CL-01")
@pytest.mark.parametrize("option", ["--output", "--losses"])
def test_file_that_exists_is_replaced_only_with_force(
    option: str, tmp_path: Path, toolwire: Callable[..., Any]
) -> None:
    there = tmp_path / "there.json"
    there.write_text("mine")
    refused = toolwire("convert", VECTOR, "--to", "mcp", option, there)
    assert (refused.code, refused.out, there.read_text()) == (2, "", "mine")
    assert "there.json already exists. Name another file, or use --force to replace it." in refused.err
    assert toolwire("convert", VECTOR, "--to", "mcp", option, there, "--force").code == 0
    json.loads(there.read_text())


def test_output_can_be_written_to_a_device(toolwire: Callable[..., Any]) -> None:
    assert toolwire("convert", VECTOR, "--to", "mcp", "-o", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


def test_terminal_output_is_escaped_json(terminal: Callable[..., Any]) -> None:
    shown = terminal("convert", VECTOR, "--to", "mcp")
    assert shown.end() == 0
    assert b'"Get storage size."' in shown.shown
