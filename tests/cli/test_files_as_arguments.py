"""``key=@file`` sends the bytes of a file, where a tool takes bytes and nowhere else."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolwire.cli.call_arguments import read_values
from toolwire.core.model import Tool
from toolwire.hosting.targets.load_code import open_code
from toolwire.hosting.targets.target import FileTarget
from toolwire.server import asgi
from toolwire.testing.loopback import background

PICTURE = bytes(range(256)) * 5  # its base64 has letters that base64url has not
TOOLS = '''
    from hashlib import sha256
    from toolwire import File, Image, Toolkit

    album = Toolkit("Album")

    @album.tool(approval="auto", safe=True)
    def digest(picture: bytes) -> str:
        """Say what a picture is."""
        return sha256(picture).hexdigest()

    @album.tool(approval="auto", safe=True)
    def measure(pictures: list[bytes]) -> list[int]:
        """Say how large pictures are."""
        return [len(picture) for picture in pictures]

    @album.tool(approval="auto", safe=True)
    def caption(text: str | None = None) -> str:
        """Say a text back."""
        return text or ""

    @album.tool(approval="auto", safe=True)
    def copy(picture: bytes) -> bytes:
        """Give a picture back."""
        return picture

    @album.tool(approval="auto", safe=True)
    def name(photo: Image, notes: list[File] | None = None) -> list[str]:
        """Say what files are called."""
        return [f"{one.name} {one.media_type} {len(one.data)}" for one in (photo, *(notes or []))]
'''

pytestmark = pytest.mark.requirement("FU-17")


@pytest.fixture
def album(write: Callable[..., Path]) -> Path:
    return write("album.py", TOOLS)


@pytest.fixture
def url(album: Path) -> Iterator[str]:
    with background(asgi(open_code(FileTarget(album)))) as url:
        yield url


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    file = tmp_path / "picture.png"
    file.write_bytes(PICTURE)
    return file


@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_file_argument_arrives_over_every_protocol(
    protocol: str, url: str, picture: Path, toolwire: Callable[..., Any]
) -> None:
    def call(*words: str) -> Any:
        ended = toolwire("call", url, *words, "--protocol", protocol, "--agree", "--json")
        assert ended.code == 0, ended
        return json.loads(ended.out)["value"]

    assert call("digest", f"picture=@{picture}") == "d414b085826eb06778483ba35564dc849e643359f69ed9747878ba6e54985bed"
    assert call("measure", f"pictures=@{picture}", f"pictures=@{picture}") == [len(PICTURE)] * 2
    assert call("measure", f"pictures=@{picture}") == [len(PICTURE)]
    assert base64.urlsafe_b64decode(call("copy", f"picture=@{picture}")) == PICTURE
    assert call("caption", f"text=@{picture}") == f"@{picture}"
    notes = [f"notes=@{picture}"] * 2
    assert call("name", f"photo=@{picture}", *notes) == [f"picture.png image/png {len(PICTURE)}"] * 3


def test_local_code_receives_file_arguments(album: Path, picture: Path, toolwire: Callable[..., Any]) -> None:
    assert toolwire("call", album, "measure", f"pictures=@{picture}", "--json").code == 0
    named = toolwire("call", album, "name", f"photo=@{picture}", "--json")
    assert json.loads(named.out)["value"] == [f"picture.png image/png {len(PICTURE)}"]


def test_unreadable_file_argument_is_named(album: Path, picture: Path, toolwire: Callable[..., Any]) -> None:
    missing = toolwire("call", album, "digest", "picture=@missing.png")
    assert (missing.code, missing.err) == (2, "toolwire: 'missing.png' cannot be read: No such file or directory.\n")
    assert toolwire("call", album, "digest", f"picture=@{picture.parent}").code == 2
    endless = toolwire("call", album, "digest", "picture=@/dev/zero")
    assert (endless.code, endless.err) == (2, "toolwire: '/dev/zero' is larger than 33,554,432 bytes.\n")


def test_file_is_not_read_if_the_schema_also_accepts_text(picture: Path) -> None:
    upload = {"type": "string", "contentEncoding": "base64"}  # an upload of an OpenAPI document
    schemas = {"file": upload, "either": {"anyOf": [upload, {"type": "string"}]}}
    tool = Tool(name="t", input_schema={"type": "object", "properties": schemas})
    assert read_values([f"file=@{picture}"], {}, tool) == {"file": base64.b64encode(PICTURE).decode()}
    assert read_values([f"either=@{picture}"], {}, tool) == {"either": f"@{picture}"}
