"""A model's provider on loopback that speaks OpenAI's or Anthropic's protocol and plays a script."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Turn: TypeAlias = str | Sequence[tuple[str, dict[str, Any]]] | None
"""What the model says: a text, or calls of tools by name; None is a refusal to answer at all."""

Script: TypeAlias = Callable[[dict[str, Any]], Turn]
"""Takes what the model is sent, gives what it says."""


@dataclass
class Provider:
    """The provider: where it is, and all it was sent."""

    url: str = ""
    heard: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def everything(self) -> str:
        """All it was sent, as one text."""
        return json.dumps(self.heard, ensure_ascii=False) + json.dumps(self.headers)


WISH = "Find me a good pasta recipe and save it"
CHOICE = "The first one"


def lines(*turns: Turn) -> Script:
    """Return a script that says these turns, one after the other."""
    left = list(turns)
    return lambda _: left.pop(0)


@contextmanager
def provider(script: Script, *, port: int = 0) -> Generator[Provider, None, None]:
    """Give a provider that plays ``script`` until the block ends."""
    kept = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            kept.heard.append(body)
            kept.headers.append(dict(self.headers))
            write = _openai if self.path == "/v1/chat/completions" else _anthropic
            turn = script(body)
            answer = json.dumps({} if turn is None else write(turn, len(kept.heard))).encode()
            self.send_response(400 if turn is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    kept.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()


def _openai(turn: str | Sequence[tuple[str, dict[str, Any]]], number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn if isinstance(turn, str) else None}
    if not isinstance(turn, str):
        message["tool_calls"] = [
            {"id": f"c{number}-{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for at, (name, given) in enumerate(turn)
        ]
    choice = {"index": 0, "message": message, "finish_reason": "stop" if isinstance(turn, str) else "tool_calls"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    answer = {"id": "x", "object": "chat.completion", "created": 0, "model": "scripted"}
    return {**answer, "choices": [choice], "usage": usage}


def _anthropic(turn: str | Sequence[tuple[str, dict[str, Any]]], number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = (
        [{"type": "text", "text": turn}]
        if isinstance(turn, str)
        else [
            {"type": "tool_use", "id": f"c{number}-{at}", "name": name, "input": given}
            for at, (name, given) in enumerate(turn)
        ]
    )
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": "end_turn" if isinstance(turn, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def pasta(body: dict[str, Any]) -> Turn:
    """Return what a sensible model would say, with the tools of the recipes, to ``WISH`` and what follows it."""
    last = body["messages"][-1]
    match last["role"], last["content"]:
        case "user", text if text == WISH:
            return [("searchRecipes", {"query": "pasta", "cuisine": "italian", "maxTime": 60})]
        case "user", _:
            return [("addFavorite", {"recipeId": _found(body)[0]["id"]})]
        case "tool", text if isinstance(found := read_result(text), list):
            dishes = [f"{number}. {one['name']}, {one['minutes']} minutes" for number, one in enumerate(found, 1)]
            return "\n".join(["I found these. Which one shall I save?", *dishes])
        case _:
            return "Nothing was saved." if '"denied":true' in last["content"] else "It is now in your favorites."


def read_result(text: str) -> Any:
    """Return what a tool returned, from a message that also says which site it came from."""
    data = json.loads(text)
    return data["result"] if isinstance(data, dict) and "result" in data else data


def _found(body: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_result(next(one["content"] for one in body["messages"] if one["role"] == "tool"))
    return found


def main() -> None:
    """Serve a model that knows the story of the pasta, until Ctrl-C: ``python -m examples.scripted_model --port N``."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.scripted_model", description="A model that plays a script."
    )
    parser.add_argument("--port", type=int, default=0, help="the port to listen on; 0 picks a free one")
    with provider(pasta, port=parser.parse_args().port) as running:
        print(f"A scripted model is at {running.url}/v1. Ctrl-C stops it.", flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
