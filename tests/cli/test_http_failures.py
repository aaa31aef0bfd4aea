"""A site that answers with a failure, or with none: each command ends with a sentence, its exit code and no secret."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from toolwire.consent import DefinitionLock, write_lock

SECRET = "hunter2-of-a-test"


def build_answer(status: str, *fields: str, body: str = "") -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *fields]
    return ("\r\n".join(head) + "\r\n\r\n" + body).encode()


ANSWERS = {
    "401": build_answer("401 Unauthorized", "WWW-Authenticate: Bearer"),
    "403": build_answer("403 Forbidden"),
    "404": build_answer("404 Not Found"),
    "429": build_answer("429 Too Many Requests", "Retry-After: 60"),
    "500": build_answer("500 Internal Server Error"),
    "HTML": build_answer("200 OK", "Content-Type: text/html", body="<!doctype html><title>Hello</title>"),
    "empty": build_answer("200 OK", "Content-Type: application/json"),
    "redirect loop": build_answer("302 Found", "Location: /"),
    "closed": b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"openapi": ',
}
COMMANDS = ["tools URL", "show URL x", "call URL x", "calls list URL", "resources URL", "prompts URL", "size URL"]
COMMANDS += ["convert URL --to mcp", "lock URL", "diff URL", "chat URL --model m", "serve URL --port 0"]


@pytest.fixture
def start() -> Iterator[Callable[[bytes], str]]:
    """Start a server that gives one answer to everything, and return its URL."""
    started: list[tuple[socketserver.ThreadingTCPServer, threading.Thread]] = []

    def run(answer: bytes) -> str:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                size = 0
                while (line := self.rfile.readline(65_536)) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        size = int(line.split(b":")[1])
                self.rfile.read(size)
                self.wfile.write(answer)

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        started.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield run
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.requirement("CL-02")
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("words", COMMANDS)
def test_failing_site_ends_a_command_with_a_sentence_and_its_exit_code(
    words: str,
    kind: str,
    start: Callable[[bytes], str],
    toolwire: Callable[..., Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("KEY_OF_A_TEST", SECRET)
    (tmp_path / "toolwire.lock").write_text(write_lock(DefinitionLock()), encoding="utf-8")
    url = start(ANSWERS[kind])
    outcome = toolwire(*words.replace("URL", url).split(), "--key-env", "KEY_OF_A_TEST", "--timeout", "5")
    assert outcome.code in (3, 4), outcome
    replies = [line for line in outcome.err.splitlines() if line.startswith("toolwire: ")]
    assert len(replies) == 1, outcome
    assert url.removeprefix("http://") in replies[0]
    assert replies[0].endswith(".")
    if kind in ("429", "500"):
        assert f"answered with status {kind}: " in replies[0]
        assert "Try again later" in replies[0]
    assert "Traceback" not in outcome.err + outcome.out
    assert SECRET not in outcome.err + outcome.out
