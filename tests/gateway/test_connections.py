"""A list of connections is a plain file: shared, served, and never with a key in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolwire import Toolkit, Value, asgi, connect_sync
from toolwire.cli.open_upstreams import open_toolboxes
from toolwire.cli.serve_app import build_app
from toolwire.cli.serve_settings import ServeSettings
from toolwire.core.errors import DefinitionError
from toolwire.gateway import ListedConnection, read_connections, write_connections
from toolwire.testing.loopback import background


def write_list(folder: Path, data: Any) -> Path:
    file = folder / "team.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return file


@pytest.mark.requirement("OQ-7")
def test_written_connection_list_is_read_back(tmp_path: Path) -> None:
    listed = (
        ListedConnection(name="tasks", url="https://tasks.example"),
        ListedConnection(name="mail", url="https://mail.example/mcp"),
    )
    text = write_connections(listed)
    assert json.loads(text) == {
        "connections": [
            {"name": "tasks", "url": "https://tasks.example"},
            {"name": "mail", "url": "https://mail.example/mcp"},
        ]
    }
    assert read_connections(write_list(tmp_path, text)) == listed


@pytest.mark.requirement("OQ-7")
def test_gateway_serves_the_connections_of_a_list(tmp_path: Path) -> None:
    def one(title: str, name: str) -> Toolkit:
        kit = Toolkit(title)
        kit.tool(approval="auto", safe=True, name=name)(lambda: title)
        return kit

    with background(asgi(one("Tea", "brew"))) as tea, background(asgi(one("Mail", "read"))) as mail:
        entries = [{"name": "tea", "url": tea}, {"name": "mail", "url": mail}]
        file = write_list(tmp_path, {"connections": entries})
        settings = ServeSettings(targets=[listed.url for listed in read_connections(file)])
        app = build_app(settings, open_toolboxes(settings))
        with background(app) as url, connect_sync(url) as remote:
            assert set(remote.catalog().names) == {"brew", "read"}
            assert (remote.call("brew"), remote.call("read")) == (Value("Tea"), Value("Mail"))


@pytest.mark.requirement("OQ-7", "D-26")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{", "cannot be read"),
        ([], '"connections"'),
        ({"connections": {}}, '"connections"'),
        ({"connections": [7]}, "Connection 1 of team.json is a number"),
        ({"connections": [{"url": "https://a.example"}]}, "needs a name"),
        ({"connections": [{"name": "a b", "url": "https://a.example"}]}, "needs a name"),
        ({"connections": [{"name": "a"}]}, "needs a url"),
        ({"connections": [{"name": "a", "url": ""}]}, "needs a url"),
        ({"connections": [{"name": "a", "url": 7}]}, "needs a url"),
        ({"connections": [{"name": "a", "url": "https://u:hidden@a.example"}]}, "toolwire login"),
        ({"connections": [{"name": "a", "url": "https://a.example", "api_key": "hidden"}]}, "keys do not belong there"),
        ({"connections": [{"name": "a", "url": "u"}, {"name": "A", "url": "v"}]}, "calls two connections 'a'"),
    ],
)
def test_invalid_connection_list_or_one_with_a_key_is_refused_in_one_sentence(
    tmp_path: Path, data: Any, said: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        read_connections(write_list(tmp_path, data))
    assert said in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_missing_connection_list_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"gone.json cannot be read: No such file"):
        read_connections(tmp_path / "gone.json")
