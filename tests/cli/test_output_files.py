"""``toolwire call --output FILE``: the bytes of a result in a file, over every wire, and never half of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.cli.conftest import Outcome
from toolwire import File, Image, Toolkit, asgi
from toolwire.client.transport.server_command import read_server_command
from toolwire.stores.consent.agreed_digests import open_agreed_commands
from toolwire.stores.paths import find_state_folder
from toolwire.testing.loopback import background

PNG = b"\x89PNG" + bytes(range(256))
KIT = """
    from toolwire import Image, Toolkit

    kit = Toolkit("Studio")


    @kit.tool(approval="auto")
    def draw() -> Image:
        "Draw a chart."
        return Image(b"\\x89PNG" + bytes(range(256)), "image/png", "../../theirs.png")
"""
pytestmark = pytest.mark.requirement("FU-17")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path.with_name(f"{tmp_path.name}-state")))
    return tmp_path / "out"


@pytest.fixture
def calls() -> list[str]:
    """The calls that were made."""
    return []


@pytest.fixture
def studio(calls: list[str]) -> Iterator[str]:
    kit = Toolkit("Studio")

    @kit.tool(approval="auto")
    def draw() -> Image:
        """Draw a chart."""
        calls.append("draw")
        return Image(PNG, "image/png", "../../theirs.png")

    @kit.tool(approval="auto")
    def pack() -> list[str | Image | File]:
        """Return two files."""
        return ["two", Image(PNG, "image/png"), File(b"a note", "text/plain")]

    @kit.tool(approval="auto")
    def tell() -> str:
        """Return a text."""
        return "gr\u00fcn"

    @kit.tool(approval="auto")
    def rows() -> list[int]:
        """Return data."""
        return [1, 2]

    @kit.tool(approval="auto")
    def fail() -> Image:
        """Fail."""
        raise RuntimeError

    with background(asgi(kit)) as url:
        yield url


def list_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder.parent)) for path in folder.parent.rglob("*") if path.is_file())


@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_image_is_written_to_the_file_the_user_named(
    toolwire: Callable[..., Outcome], studio: str, folder: Path, protocol: str
) -> None:
    done = toolwire("call", studio, "draw", "--agree", "--protocol", protocol, "-o", "mine.png")
    assert (done.code, done.out) == (0, "mine.png: 260 bytes, image/png\n")
    assert (folder / "mine.png").read_bytes() == PNG
    assert list_files(folder) == ["out/mine.png"]  # the name that the site gives is not used


def test_the_image_of_a_local_tool_and_of_a_program_is_written(
    toolwire: Callable[..., Outcome], write: Callable[..., Path], folder: Path
) -> None:
    file = write("studio.py", KIT)
    program = f"stdio:{sys.executable} -m toolwire serve {file} --stdio"
    known = read_server_command(program)
    assert known is not None
    open_agreed_commands(find_state_folder()).add(known.digest, str(known))
    for number, target in enumerate((str(file), program)):
        assert toolwire("call", target, "draw", "--agree", "--yes", "-o", f"{number}.png").code == 0
        assert (folder / f"{number}.png").read_bytes() == PNG


def test_binary_response_of_any_api_is_written(toolwire: Callable[..., Outcome], folder: Path) -> None:
    async def answer(_: Request) -> Response:
        return Response(PNG, media_type="image/png")

    with background(Starlette(routes=[Route("/cat", answer)])) as url:
        call_cat(toolwire, folder, url)


def call_cat(toolwire: Callable[..., Outcome], folder: Path, url: str) -> None:
    document = {
        "openapi": "3.0.3",
        "x-llm": {"version": "0.1", "name": "Pictures"},
        "info": {"title": "Pictures", "version": "1"},
        "servers": [{"url": url}],
        "paths": {
            "/cat": {
                "get": {
                    "operationId": "cat",
                    "x-llm": {"approval": "auto"},
                    "responses": {"200": {"description": "", "content": {}}},
                }
            }
        },
    }
    (folder / "api.json").write_text(json.dumps(document))
    done = toolwire("call", "api.json", "cat", "--agree", "--output", "cat.png", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {"ok": True, "file": "cat.png", "media_type": "image/png", "bytes": len(PNG)}
    assert (folder / "cat.png").read_bytes() == PNG


@pytest.mark.parametrize(("tool", "data"), [("tell", "gr\u00fcn".encode()), ("rows", b"[\n  1,\n  2\n]\n")])
def test_text_and_json_results_are_written_to_a_file(
    toolwire: Callable[..., Outcome], studio: str, folder: Path, tool: str, data: bytes
) -> None:
    assert toolwire("call", studio, tool, "--agree", "-o", "result").code == 0
    assert (folder / "result").read_bytes() == data


def test_binary_result_is_written_to_a_pipe(studio: str) -> None:
    command = [sys.executable, "-m", "toolwire", "call", studio, "draw", "--agree", "--output", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == PNG


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("there.png", "there.png already exists. Name another file, or use --force to replace it."),
        ("link.png", "link.png already exists. Name another file, or use --force to replace it."),
        (".", ". is a folder. Give --output a file name."),
        ("none/x.png", "Cannot write none/x.png: the folder none does not exist."),
    ],
)
def test_unwritable_output_file_is_reported_before_the_call(
    toolwire: Callable[..., Outcome], studio: str, folder: Path, calls: list[str], name: str, sentence: str
) -> None:
    (folder / "there.png").write_text("mine")
    (folder / "link.png").symlink_to(folder.parent / "elsewhere")
    done = toolwire("call", studio, "draw", "--agree", "-o", name)
    assert (done.code, calls) == (2, [])
    assert sentence in done.err
    assert (folder / "there.png").read_text() == "mine"
    assert list_files(folder) == ["out/there.png"]


def test_existing_output_file_is_replaced_only_with_force(
    toolwire: Callable[..., Outcome], studio: str, folder: Path
) -> None:
    (folder / "there.png").write_text("mine")
    assert toolwire("call", studio, "draw", "--agree", "-o", "there.png", "--force").code == 0
    assert (folder / "there.png").read_bytes() == PNG
    refused = toolwire("call", studio, "draw", "--agree", "--force")
    assert (refused.code, "--force needs --output FILE." in refused.err) == (2, True)


def test_a_result_that_is_not_written_is_printed(toolwire: Callable[..., Outcome], studio: str, folder: Path) -> None:
    done = toolwire("call", studio, "pack", "--agree", "-o", "both")
    assert done.code == 1
    assert "both was not written: the result has 2 files (image/png, text/plain), and --output takes one." in done.err
    assert "The tool returned an image (image/png, 260 bytes)" in done.out
    failed = toolwire("call", studio, "fail", "--agree", "-o", "none")
    assert failed.code == 1
    assert list_files(folder) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")
def test_result_is_printed_if_the_disk_is_full_and_no_file_remains(
    toolwire: Callable[..., Outcome], studio: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def open_full(path: Any, *arguments: Any, **more: Any) -> int:
        return opened("/dev/full", os.O_WRONLY) if ".result." in str(path) else opened(path, *arguments, **more)

    monkeypatch.setattr(os, "open", open_full)
    done = toolwire("call", studio, "tell", "--agree", "-o", "result")
    assert (done.code, done.out) == (1, "gr\u00fcn\n")
    assert "result cannot be written: No space left on device. The call was sent." in done.err
    assert list_files(folder) == []
