"""A key that somebody pasted into a URL is shown nowhere and kept nowhere."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CANARY = "canary-4711"


@pytest.mark.requirement("D-26", "AT-19")
@pytest.mark.parametrize("protocol", ["openapi", "otc", "opentool", "mcp"])
@pytest.mark.parametrize("part", ["?api_key={}", "#{}", "?x=1&token={}#{}"])
def test_a_key_in_a_url_is_neither_printed_nor_kept(
    protocol: str, part: str, site: str, toolwire: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lock = tmp_path / "toolwire.lock"
    url = site + part.replace("{}", CANARY)
    replies = [
        toolwire("lock", url, "--protocol", protocol, "--file", str(lock)),
        toolwire("diff", url, "--protocol", protocol, "--file", str(lock)),
        toolwire("diff", url + "2", "--protocol", protocol, "--file", str(tmp_path / "none.lock")),
        toolwire("explain", url),
        toolwire("explain", url, "--json"),
        toolwire("tools", url, "--protocol", protocol),
        toolwire("call", url, "note", "text=hello", "--protocol", protocol),
        toolwire("call", url, "add", "a=1", "b=2", "--protocol", protocol, "--agree"),
        toolwire("logout", url),
        toolwire("approvals", "log"),
    ]
    for one in replies:
        assert CANARY not in one.out + one.err
    stored = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(CANARY.encode() in file.read_bytes() for file in stored) is False
    if lock.exists():
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
