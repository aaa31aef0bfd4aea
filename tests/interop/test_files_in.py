"""Files as arguments: an object of the program at one end, an object of the function at the other, on every wire."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from toolwire import Audio, File, Image, Kind, Problem, Question, Toolkit, asgi, connect, connect_sync
from toolwire.client.calls.file_arguments import MAX_FILE_BYTES
from toolwire.consent.display import build_display_rows
from toolwire.consent.question_page import build_question_page
from toolwire.testing import background

from .conftest import run_app

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
PHOTO = Image(PNG, "image/png", "photo.png")
WIRES = ("openapi", "opentool", "otc", "mcp")

pytestmark = pytest.mark.requirement("MC-07")


class Post(BaseModel):
    """A text with a photo."""

    text: str
    photo: Image


class Desk:
    """A server, with every file that a function of it was given."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        kit = self.kit = Toolkit("Desk")

        @kit.tool(approval="per-call")
        def upload(file: File, cover: Image | None = None, others: list[File | Image] | None = None) -> int:
            """Upload files.

            Args:
                file: The file.
            """
            self.given.append((file, cover, others))
            return len(file.data)

        @kit.tool(approval="auto", safe=True)
        def flip(photo: Image) -> Image:
            """Flip a photo."""
            self.given.append(photo)
            return photo

        @kit.tool(approval="auto")
        async def listen(sound: Audio) -> str:
            """Listen."""
            return sound.media_type

        @kit.tool(approval="auto")
        def publish(post: Post) -> str:
            """Publish."""
            return f"{post.text} {post.photo.media_type}"

        @kit.tool(approval="auto")
        def count(number: int) -> int:
            """Count."""
            return number


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def site(desk: Desk) -> Iterator[str]:
    with background(asgi(desk.kit)) as url:
        yield url


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "no\u00ebl; a.csv"
    path.write_bytes(b"a;b")
    return path


def allow(_: Question) -> bool:
    return True


@pytest.mark.parametrize("wire", WIRES)
def test_a_function_gets_the_file_that_the_program_gives(site: str, desk: Desk, notes: Path, wire: str) -> None:
    arguments = {"file": notes, "cover": PHOTO, "others": [File(b"1"), PHOTO]}
    with connect_sync(site, protocol=wire, approve=allow, agree=allow) as remote:
        assert remote.call("upload", arguments).unwrap() == 3
        assert remote.read_content(remote.call("flip", {"photo": PHOTO}).unwrap()).data == PNG
        assert remote.call("listen", {"sound": Audio(b"RIFF", "audio/wav")}).unwrap() == "audio/wav"
    file, cover, others = desk.given[0]
    assert (file, cover, desk.given[1]) == (File(b"a;b", "text/csv", notes.name), PHOTO, PHOTO)
    assert [one.data for one in others] == [b"1", PNG]


@pytest.mark.parametrize("inner", WIRES)
@pytest.mark.parametrize("outer", WIRES)
def test_a_gateway_passes_a_file_on(site: str, desk: Desk, inner: str, outer: str) -> None:
    async def run() -> None:
        async with connect(site, protocol=inner, approve=allow, agree=allow) as near:
            with background(asgi(near)) as url:
                async with connect(url, protocol=outer, approve=allow, agree=allow) as far:
                    (await far.call("flip", {"photo": PHOTO})).unwrap()

    anyio.run(run)
    assert desk.given == [PHOTO]


@pytest.mark.parametrize("wire", WIRES)
def test_any_client_sends_base64_or_a_data_url(site: str, desk: Desk, wire: str) -> None:
    plain = base64.b64encode(PNG).decode()
    texts = [
        plain,
        plain.rstrip("="),
        base64.urlsafe_b64encode(PNG).decode(),
        f"data:image/png;base64,{plain}",
        f"data:image/png;name=photo.png;base64,{plain}",
    ]
    with connect_sync(site, protocol=wire, approve=allow, agree=allow) as remote:
        for text in texts:
            remote.call("flip", {"photo": text}).unwrap()
        remote.call("upload", {"file": "data:text/plain,gr%C3%BCn"}).unwrap()
        assert remote.call("publish", {"post": {"text": "a", "photo": texts[3]}}).unwrap() == "a image/png"
    assert desk.given[:4] == [Image(PNG, "image/png")] * 4
    assert desk.given[4] == PHOTO
    assert desk.given[5][0] == File("gr\u00fcn".encode(), "text/plain")


def test_the_official_client_sees_a_text_of_base64(site: str, desk: Desk) -> None:
    async def talk() -> dict[str, Any]:
        async with Client(f"{site}/mcp") as client:
            await client.call_tool("flip", {"photo": base64.b64encode(PNG).decode()})
            tools = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
            return {**tools["flip"], **tools["upload"]}

    schemas = anyio.run(talk)
    assert desk.given == [Image(PNG, "image/png")]
    words = {"type": "string", "contentEncoding": "base64"}
    assert schemas["photo"] == {**words, "x-mcp-file": {"accept": ["image/*"]}}
    reply = {"contentMediaType": "application/octet-stream", "x-mcp-file": {}, "description": "The file."}
    assert schemas["file"] == {**words, **reply}


def test_a_file_is_never_in_a_url(site: str) -> None:
    with connect_sync(site, protocol="openapi", approve=allow) as remote:
        assert remote.find("flip").hints["openapi"]["method"] == "POST"


@pytest.mark.requirement("D-35")
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "text",
    ["/etc/passwd!", "file:///etc/passwd", "https://a.example/x.png", "~/x", "data:image/png;base64,?", "", "@x"],
)
def test_a_text_is_never_opened(site: str, desk: Desk, wire: str, text: str) -> None:
    with connect_sync(site, protocol=wire, approve=allow, agree=allow) as remote:
        problem = remote.call("flip", {"photo": text})
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.INVALID_ARGUMENTS
    assert "photo" in problem.parameter_errors
    assert desk.given == []


@pytest.mark.parametrize("blocking", [False, True])
def test_the_user_sees_which_file_is_sent(site: str, notes: Path, blocking: bool) -> None:
    questions: list[Question] = []

    def refuse(question: Question) -> bool:
        questions.append(question)
        return False

    def ask() -> Any:
        with connect_sync(site, approve=refuse) as remote:
            return remote.call("upload", {"file": notes, "cover": PHOTO})

    async def ask_async() -> Any:
        async with connect(site, approve=refuse) as remote:
            return await remote.call("upload", {"file": notes, "cover": PHOTO})

    problem = ask() if blocking else anyio.run(ask_async)
    assert problem.kind is Kind.DENIED
    (question,) = questions
    rows = {row.label: row.text for row in build_display_rows(question) if row.kind == "argument"}
    assert rows == {
        "file": f"the file {notes} (text/csv, 3 bytes, SHA-256 {sha256(b'a;b').hexdigest()})",
        "cover": f"photo.png of this program (image/png, {len(PNG)} bytes, SHA-256 {sha256(PNG).hexdigest()})",
    }
    page = build_question_page(question, "token")
    assert str(notes) in page
    assert base64.b64encode(PNG).decode() not in page


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (lambda folder: {"file": folder / "missing"}, "file cannot be read: No such file or directory."),
        (lambda folder: {"file": folder}, "file cannot be read: Is a directory."),
        (lambda folder: {"file": Path("/dev/zero")}, f"file is larger than {MAX_FILE_BYTES:,} bytes."),
        (lambda folder: {"file": Path("\0")}, "file cannot be read: invalid file name."),
        (lambda folder: {"file": PHOTO, "others": [PHOTO, folder / "missing"]}, "others cannot be read: "),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_sent(
    site: str, desk: Desk, tmp_path: Path, arguments: Callable[[Path], Any], reason: str
) -> None:
    with connect_sync(site, approve=allow) as remote:
        problem = remote.call("upload", arguments(tmp_path))
        other = remote.call("count", {"number": tmp_path})
    assert isinstance(problem, Problem)
    assert reason in problem.message
    assert isinstance(other, Problem)
    assert other.message == "count was not called: number takes no file."
    assert desk.given == []


UPLOAD = {"multipart/form-data": {"schema": {"type": "object", "properties": {"photo": {"format": "binary"}}}}}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Photos", "version": "1"},
    "x-llm": {"defaultApproval": "auto"},
    "paths": {
        "/cat": {"get": {"operationId": "cat", "x-llm": {}, "responses": {"200": {"content": {"image/png": {}}}}}},
        "/photos": {
            "post": {
                "operationId": "upload",
                "x-llm": {},
                "requestBody": {"content": UPLOAD},
                "responses": {"200": {"content": {"application/json": {}}}},
            }
        },
    },
}


def test_a_file_goes_to_any_api_with_its_name_and_type(notes: Path) -> None:
    async def upload(request: Request) -> JSONResponse:
        async with request.form() as form:
            photo = form["photo"]
            assert not isinstance(photo, str)
            return JSONResponse([photo.filename, photo.content_type, len(await photo.read())])

    routes = [
        Route("/openapi.json", lambda _: JSONResponse(DOCUMENT)),
        Route("/photos", upload, methods=["POST"]),
        Route("/cat", lambda _: Response(PNG, media_type="image/png")),
    ]
    with run_app(Starlette(routes=routes)) as url, connect_sync(url, protocol="openapi", approve=allow) as remote:
        assert remote.call("upload", {"photo": PHOTO}).unwrap() == ["photo.png", "image/png", len(PNG)]
        assert remote.call("upload", {"photo": notes}).unwrap() == ["noël_ a.csv", "text/csv", 3]
        handle = remote.call("cat").unwrap()["resource"]
        assert remote.call("upload", {"photo": handle}).unwrap() == ["photo.png", "image/png", len(PNG)]


@pytest.mark.parametrize("wire", ["openapi", "otc", "mcp"])
def test_a_handle_is_a_file_where_a_tool_takes_one(site: str, desk: Desk, wire: str) -> None:
    with connect_sync(site, protocol=wire, approve=allow, agree=allow) as remote:
        handle = remote.store(PNG, media_type="image/png", name="photo.png")
        remote.call("flip", {"photo": handle}).unwrap()
        assert isinstance(remote.call("flip", {"photo": "resource:" + "a" * 32}), Problem)
    assert desk.given == [PHOTO]


def test_a_server_that_marks_a_file_as_the_draft_of_mcp_does_gets_a_data_url() -> None:
    seen: list[Any] = []
    schema = {"type": "string", "format": "uri", "x-mcp-file": {"accept": ["image/*"]}}
    tool = {"name": "see", "description": "See.", "inputSchema": {"type": "object", "properties": {"photo": schema}}}

    async def answer(request: Request) -> Response:
        message = json.loads(await request.body())
        if message["method"] == "tools/call":
            seen.append(message["params"]["arguments"]["photo"])
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "Eye", "version": "1"},
            },
            "tools/list": {"tools": [tool]},
            "tools/call": {"content": [{"type": "text", "text": "seen"}]},
        }
        if message["method"] not in results:
            error = {"code": -32601, "message": "unknown"}
            return JSONResponse({"jsonrpc": "2.0", "id": message.get("id"), "error": error})
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})

    app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
    with run_app(app) as url, connect_sync(f"{url}/mcp", approve=allow) as remote:
        assert remote.call("see", {"photo": PHOTO}).unwrap() == "seen"
    assert seen == [f"data:image/png;name=photo.png;base64,{base64.b64encode(PNG).decode()}"]
