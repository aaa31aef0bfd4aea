"""A gateway that is opened from Python is the one that ``toolwire gateway run`` serves."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from toolwire import DefinitionError, Problem, Toolkit, ToolwireError, Value, asgi, connect_sync
from toolwire.cli import main
from toolwire.hosting import ServeSettings, UpstreamSettings, open_gateway
from toolwire.server import ServerOptions
from toolwire.testing import background

pytestmark = pytest.mark.requirement("GW-01")

CODE = """from toolwire import Toolkit

sums = Toolkit("Sums")


@sums.tool(safe=True)
def add(a: int, b: int) -> int:
    \"\"\"Add two numbers.\"\"\"
    return a + b
"""

kit = Toolkit("Notes")


@kit.tool(destructive=True)
def remove(name: str) -> str:
    """Remove a note."""
    return f"removed {name}"


@kit.tool(safe=True)
def read(name: str) -> str:
    """Read a note."""
    return f"text of {name}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with code, which is not the working folder."""
    here = tmp_path / "elsewhere"
    here.mkdir()
    monkeypatch.chdir(here)
    there = tmp_path / "gateway"
    there.mkdir()
    (there / "sums.py").write_text(CODE)
    return there


def write_file(folder: Path, site: str, above: str = "") -> Path:
    file = folder / "toolwire.toml"
    upstreams = f'[upstreams.sums]\ntarget = "sums.py"\n[upstreams.notes]\ntarget = "{site}"\n'
    file.write_text(f"{above}\n{upstreams}")
    return file


def test_gateway_opened_from_its_file_lists_and_calls_both_upstreams(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with background(asgi(kit)) as site:
        file = write_file(folder, site)
        with (
            background(open_gateway(file)) as url,
            connect_sync(url, protocol="opentool", approve=lambda _: True) as remote,
        ):
            listed = sorted(remote.catalog().names)
            found = remote.call("add", {"a": 1, "b": 2})
            text = remote.call("read", {"name": "x"})
        with background(open_gateway(str(file))) as url:
            assert main(["tools", url, "--json"]) == 0
    assert listed == ["add", "read", "remove"]
    assert found == Value(3)
    assert text == Value("text of x")
    assert '"remove"' in capsys.readouterr().out


@pytest.mark.parametrize("path", ["assistant", "tools"])
@pytest.mark.parametrize("protocol", ["opentool", "otc", "openapi", "mcp"])
def test_gateway_is_mounted_below_a_path_of_an_application(folder: Path, protocol: str, path: str) -> None:
    with background(asgi(kit)) as site:
        app = Starlette(routes=[Mount(f"/{path}", open_gateway(write_file(folder, site)))])
        with background(app) as url:
            pasted = f"{url}/{path}/mcp" if protocol == "mcp" else f"{url}/{path}/"
            with connect_sync(pasted, protocol=protocol, approve=lambda _: True) as remote:
                assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
                assert remote.call("remove", {"name": "x"}) == Value("removed x")


def test_call_that_needs_consent_runs_through_the_gateway_only_after_its_caller_confirmed(folder: Path) -> None:
    with background(asgi(kit)) as site, background(open_gateway(write_file(folder, site))) as url:
        with connect_sync(url, protocol="openapi") as remote:
            refused = remote.call("remove", {"name": "x"})
        with connect_sync(url, protocol="openapi", approve=lambda _: True) as remote:
            allowed = remote.call("remove", {"name": "x"})
    assert isinstance(refused, Problem)
    assert allowed == Value("removed x")


def test_record_opens_the_same_gateway_and_its_keys_hold(folder: Path) -> None:
    with background(asgi(kit)) as site:
        settings = ServeSettings(
            upstreams=[
                UpstreamSettings(name="sums", target=str(folder / "sums.py")),
                UpstreamSettings(name="notes", target=site, scopes=["notes"]),
            ],
            api_keys=["key-of-ann ann notes", "key-of-bob bob other"],
            server=ServerOptions(private=True),
        )
        with background(open_gateway(settings)) as url:
            with connect_sync(url, api_key="key-of-ann", protocol="otc") as remote:
                of_ann = sorted(remote.catalog().names)
            with connect_sync(url, api_key="key-of-bob", protocol="otc") as remote:
                of_bob = sorted(remote.catalog().names)
    assert of_ann == ["add", "read", "remove"]
    assert of_bob == ["add"]


def test_keys_in_the_options_of_the_server_are_refused_and_not_ignored() -> None:
    with pytest.raises(DefinitionError, match="Remove api_keys from the server's options"):
        ServeSettings(server=ServerOptions(api_keys=["secret"]))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no upstream"),
        ('[upstreams.a]\ntarget = "nowhere.py"\n', "upstream a"),
        ('[upstreams.a]\ntarget = "stdio:cat"\n', "start Python there"),
        ('colour = "red"\n[upstreams.a]\ntarget = "sums.py"\n', "colour"),
    ],
)
def test_fault_of_the_file_is_one_sentence(folder: Path, text: str, why: str) -> None:
    file = folder / "toolwire.toml"
    file.write_text(text)
    with pytest.raises(ToolwireError, match=why):
        open_gateway(file)


def test_file_that_is_missing_is_named(folder: Path) -> None:
    with pytest.raises(ToolwireError, match="There is no"):
        open_gateway(folder / "other.toml")
