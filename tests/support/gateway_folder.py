"""The folder of a gateway, and two servers that its file can name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from toolwire import Toolkit, asgi
from toolwire.testing.loopback import background


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the gateway's file, which is the working folder, and which the user trusts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "trust")
    return tmp_path


@pytest.fixture
def sites(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The URLs of two servers, each of which wants a key of its own, that the environment has."""

    def build(title: str, name: str) -> Toolkit:
        kit = Toolkit(title)

        @kit.tool(name=name, safe=True, approval="auto")
        def tell() -> str:
            """Tell which of the sites this is."""
            return title

        return kit

    monkeypatch.setenv("FIRST_KEY", "one-of-first")
    monkeypatch.setenv("SECOND_KEY", "one-of-second")
    with (
        background(asgi(build("First", "tell_first"), api_keys=["one-of-first"])) as first,
        background(asgi(build("Second", "tell_second"), api_keys=["one-of-second"])) as second,
    ):
        yield first, second


def write_file(folder: Path, sites: tuple[str, str], more: str = "", of_first: str = "", of_second: str = "") -> Path:
    """Write the file of a gateway to both sites, with more lines for the server and for each upstream."""
    tables = [
        f'[upstreams.{name}]\ntarget = "{url}"\nkey-env = "{name.upper()}_KEY"\nagree = true\n{lines}\n'
        for name, url, lines in zip(("first", "second"), sites, (of_first, of_second), strict=True)
    ]
    file = folder / "toolwire.toml"
    file.write_text(f"port = 0\n{more}\n" + "\n".join(tables), encoding="utf-8")
    return file
