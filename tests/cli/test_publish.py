"""``toolwire publish``: the server.json of the MCP registry, for code and for a server that runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("FD-09")

SHOP = """
    from toolwire import Toolkit, asgi

    shop = Toolkit({title!r}, version="1.2.0", description="Sells tea. " * {times})

    @shop.tool(safe=True)
    def stock(item: str) -> int:
        \"\"\"Say how many there are.\"\"\"
        return 3
"""
SCHEMA = {
    "type": "object",
    "required": ["name", "description", "version"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "minLength": 3, "maxLength": 200},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string", "maxLength": 255},
        "remotes": {
            "items": {
                "required": ["type", "url"],
                "properties": {
                    "type": {"const": "streamable-http"},
                    "headers": {"items": {"required": ["name"], "properties": {"isSecret": {"type": "boolean"}}}},
                },
            }
        },
    },
}
"""What the schema of the registry asks of a server, in our words."""
URL = "https://tools.example.com/mcp"


@pytest.mark.parametrize(("title", "times"), [("Tea Shop", 1), ("Über/Shop", 40), ("日本", 0)])
def test_server_json_of_a_file_is_valid(
    title: str, times: int, toolwire: Callable[..., Any], write: Callable[..., Path]
) -> None:
    file = write("shop.py", SHOP.format(title=title, times=times))
    outcome = toolwire("publish", file, "--server-json", "--url", URL)
    assert outcome.code == 0
    data = json.loads(outcome.out)
    assert jsonschema_rs.validator_for(SCHEMA).is_valid(data), data
    assert data["name"].startswith("com.example.tools/")
    assert data["remotes"] == [{"type": "streamable-http", "url": URL}]


def test_server_json_of_a_running_server_tells_of_its_key_and_holds_none(
    toolwire: Callable[..., Any], write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        "served.py", SHOP.format(title="Tea Shop", times=1) + "\n    app = asgi(shop, api_keys=['key-of-the-shop'])\n"
    )
    monkeypatch.syspath_prepend(write("x.py", "").parent)
    monkeypatch.setenv("SHOP_KEY", "key-of-the-shop")
    app = __import__("served").app
    with background(app) as url:
        refused = toolwire("publish", url, "--server-json", "--key-env", "SHOP_KEY")
        assert (refused.code, refused.out) == (2, "")
        assert "--url https://tools.example.com/mcp" in refused.err
        outcome = toolwire(
            *("publish", url, "--server-json", "--key-env", "SHOP_KEY", "--url", URL, "--name", "io.github.ann/tea")
        )
    data = json.loads(outcome.out)
    assert (data["name"], data["title"], data["description"]) == ("io.github.ann/tea", "Tea Shop", "Sells tea.")
    (header,) = data["remotes"][0]["headers"]
    assert (header["name"], header["isRequired"], header["isSecret"]) == ("Authorization", True, True)
    assert "key-of-the-shop" not in outcome.out + outcome.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--server-json"),
        (("--server-json",), "--url"),
        (("--server-json", "--url", "http://tools.example.com/mcp"), "https"),
        (("--server-json", "--url", "https://10.0.0.1/mcp"), "everyone reaches"),
        (("--server-json", "--url", "https://ann:pass@tools.example.com/mcp"), "without a key"),
        (("--server-json", "--url", "https://tools.example.com/mcp?key=abc"), "without a key"),
        (("--server-json", "--url", "https://[/mcp"), "everyone reaches"),
        (("--server-json", "--url", URL, "--name", "shop"), "io.github.yourname/shop"),
    ],
)
def test_what_the_registry_would_refuse_is_refused_first(
    options: tuple[str, ...], said: str, toolwire: Callable[..., Any], write: Callable[..., Path]
) -> None:
    outcome = toolwire("publish", write("shop.py", SHOP.format(title="Shop", times=1)), *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
    assert "pass@" not in outcome.err
    assert "key=abc" not in outcome.err
