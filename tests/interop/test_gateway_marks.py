"""What one caller of a gateway has read, at all its upstreams, decides about that caller's calls alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.listed_tools import ListedTools, list_tool
from toolwire import connect_sync
from toolwire.hosting import open_gateway
from toolwire.testing import background

FILE = """
api-key-file = "keys.txt"
[upstreams.files]
target = "{files}/mcp"
protocol = "mcp"
run = ["reads"]
returns = ["private"]
[upstreams.web]
target = "{web}/mcp"
protocol = "mcp"
run = ["reads"]
"""


@pytest.mark.requirement("QF-06")
def test_gateway_asks_before_data_leaves_for_the_caller_who_has_read_both(tmp_path: Path) -> None:
    files = ListedTools(list_tool("read_file", readOnlyHint=True))
    web = ListedTools(
        list_tool("search", readOnlyHint=True, openWorldHint=True),
        list_tool("fetch", names=("url",), readOnlyHint=True),
    )
    (tmp_path / "keys.txt").write_text("key-of-ann ann\nkey-of-bob bob\n")
    with background(files) as near, background(web) as far:
        (tmp_path / "toolwire.toml").write_text(FILE.format(files=near, web=far))
        with background(open_gateway(tmp_path / "toolwire.toml")) as url:
            fetch = ("fetch", {"url": "https://a.example"})
            asked: list[str] = []
            for key in ("key-of-ann", "key-of-bob"):
                calls = [("search", {}), ("read_file", {}), fetch] if key == "key-of-ann" else [("search", {}), fetch]
                with connect_sync(
                    url,
                    protocol="mcp",
                    api_key=key,
                    agree=lambda _: True,
                    approve=lambda question: asked.append(" ".join(question.reasons)) or True,
                ) as remote:
                    for name, arguments in calls:
                        assert remote.call(name, arguments).ok
    (question,) = asked
    for part in ("takes a destination: url", "search of ", "read_file of ", "private data"):
        assert part in question
