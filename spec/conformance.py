# ruff: noqa: E501 - a row of a table is a line
"""Writes docs/reference/conformance.md: the kit's report on our server, and on universal-tool-server.

``python spec/conformance.py`` writes the page; a test says when it is old.
"""

from __future__ import annotations

import logging
import re
import socket
import sys
import threading
import warnings
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import uvicorn

from toolwire import Toolkit, asgi
from toolwire.testing import background
from toolwire.testing.server_checks import CheckReport, ProbeTool, conform
from toolwire.testing.server_checks.run_checks import format_markdown, summarize_report

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "conformance.md"
CALL = ProbeTool("add", {"a": 1, "b": 2})
KEY = "a-key"
_MADE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def calculator() -> Toolkit:
    """Return the tools of our server."""
    toolkit = Toolkit("Calculator", version="1.0.0", description="Arithmetic.")

    @toolkit.tool(approval="auto")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return toolkit


@contextmanager
def universal_tool_server() -> Generator[str, None, None]:
    """Give the URL of universal-tool-server with the same tool, in a thread."""
    from universal_tool_server import Server

    app = Server()

    @app.add_tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


def reports() -> tuple[tuple[CheckReport, ...], tuple[CheckReport, ...], CheckReport]:
    """Return the reports on our server without and with a key, and the one on universal-tool-server."""
    with background(asgi(calculator())) as url:
        bare = conform(url, call=CALL)
    with background(asgi(calculator(), api_keys=[KEY])) as url:
        keyed = conform(url, key=KEY, call=CALL)
    with universal_tool_server() as url:
        (theirs,) = conform(url, protocol="otc", call=CALL)
    return bare, keyed, theirs


def page() -> str:
    """Return the page as it is now; ids that differ each time are not in it."""
    return _MADE.sub("...", "\n".join(_lines(*reports()))) + "\n"


def _lines(bare: tuple[CheckReport, ...], keyed: tuple[CheckReport, ...], theirs: CheckReport) -> Iterator[str]:
    yield from INTRODUCTION.splitlines()
    yield "## toolwire\n"
    yield "The server has one tool, `add`, which may be called. The results without keys:\n"
    for report in bare:
        yield f"- {summarize_report(report)}"
    yield "\nThe full results with a key:\n"
    for report in keyed:
        yield f"### {report.protocol}\n"
        yield f"{summarize_report(report)}\n"
        yield from format_markdown(report)
        yield ""
    yield "## universal-tool-server 0.0.3\n"
    yield from THEIRS.splitlines()
    yield f"\n{summarize_report(theirs)}\n"
    yield from format_markdown(theirs)


INTRODUCTION = """\
# Conformance

`toolwire conform URL` checks over HTTP whether a server conforms to its protocols. The server can be written in any
language. Each check has a number and the id of its requirement (`spec/requirements.toml`).

| option | effect |
|---|---|
| `--protocol P` | checks only this protocol: `openapi`, `opentool` or `otc`; default: each protocol of the server |
| `--call TOOL ARGS` | names a tool that may be called, and valid arguments as a JSON object; the tool is called about twenty times. Without it, the checks call only tools that cannot exist |
| `--key KEY`, `--key-env NAME` | the key of the server, sent as a bearer token to this server only; the checks of keys need it |
| `--json`, `--markdown` | print the report as JSON, or as Markdown like this page |

The exit code is 0 if no check failed, 1 if one failed, and 4 if the server has none of the protocols.

To run the checks in the tests of your own server, use `conform` of `toolwire.testing.server_checks`:

```text
def test_our_server(our_url):
    reports = conform(our_url, protocol="otc", key="...", call=ProbeTool("add", {"a": 1, "b": 2}))
    assert [report.failures for report in reports] == [()]
```

`python spec/conformance.py` writes the reports below, and a test compares them.
"""

THEIRS = """\
This server grew from the same RFC but differs from it. Its list is a plain array, its IDs contain no toolkit, it serves
only `/tools/call`, and its responses are flat, with other statuses. Our client reads all of it, and our server has
paths for its clients below `/uts`.
"""

if __name__ == "__main__":
    logging.disable()  # their server tells of its failures there
    warnings.simplefilter("ignore")
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(page())
    else:
        PAGE.write_text(page(), encoding="utf-8")
