"""Texts that a site or a model chose to take forever, or to end in a traceback: each is read in a moment."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from toolwire import Toolkit, Value, asgi, connect_sync
from toolwire.telemetry.logs import JsonLines
from toolwire.testing import background

pytestmark = pytest.mark.requirement("D-15")
SPACES = " " * 1_000_000
"""So many that a pattern which takes the square of their number would run for days."""


def write_document(folder: Path, url: str, operations: dict[str, Any]) -> str:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Desk", "version": "1.0.0"},
        "servers": [{"url": url}],
        "paths": {"/api/echo": operations},
    }
    path = folder / "openapi.json"
    path.write_text(json.dumps(document))
    return str(path)


def build_desk() -> Toolkit:
    kit = Toolkit("Desk")

    @kit.tool(approval="per-call")
    def echo(text: str = "") -> str:
        return text

    return kit


def test_runs_of_spaces_in_a_document_do_not_stop_its_reader(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    operation = {
        "operationId": "echo",
        "description": f"Echo a text.{SPACES}that is given{SPACES}\nas text",
        "requestBody": {"content": {f"application/json{SPACES}; x": {"schema": schema}}},
        "x-llm": {"approval": "auto"},
        "responses": {"200": {"description": "the text"}},
    }
    with background(asgi(build_desk())) as url:
        source = write_document(tmp_path, url, {"post": operation})
        with connect_sync(source, agree=lambda _: True, approve=lambda _: True) as remote:
            [tool] = remote.tools
            assert len(tool.description) < 1_000
            # What is no media type by the grammar is sent without its parameters.
            assert remote.call("echo", {"text": "hello"}) == Value("hello")


def test_address_of_many_addresses_inside_each_other_is_displayed_in_the_question(tmp_path: Path) -> None:
    asked: list[str] = []
    parameter = {"name": "text", "in": "query", "allowReserved": True, "schema": {"type": "string"}}
    operation = {
        "operationId": "echo",
        "parameters": [parameter],
        "x-llm": {"approval": "per-call"},
        "responses": {"200": {"description": "the text"}},
    }
    with background(asgi(build_desk())) as url:
        source = write_document(tmp_path, url, {"get": operation})

        def approve(question: Any) -> bool:
            asked.append(question.target)
            return False

        with connect_sync(source, agree=lambda _: True, approve=approve) as remote:
            remote.call("echo", {"text": "http://a.example/?b=" * 500})
    assert asked == [f"GET {url}/api/echo?text={'http://a.example/?b=' * 5}***"]


@pytest.mark.parametrize("text", ["a-" * 500_000, "a" * 1_000_000 + " https://u:p@a.example", "http://a?b=" * 50_000])
def test_log_line_with_the_text_of_a_site_is_written_at_once(text: str) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines())
    handler.handle(
        logging.makeLogRecord({"name": "toolwire", "msg": "the site said %s", "args": (f"{text} token=k1",)})
    )
    assert "k1" not in written.getvalue()
    assert "u:p@" not in written.getvalue()
