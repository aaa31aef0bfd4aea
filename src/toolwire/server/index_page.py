"""Write the page of ``GET /``, which lists tools and protocols. It has no script and loads nothing."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from typing import TypeAlias

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Codec, Reader, Routes
from toolwire.core.http import Response
from toolwire.core.model import Approval, Tool

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.4rem .6rem .4rem 0;vertical-align:top;
border-bottom:1px solid #8884}code{font:.9em ui-monospace,monospace}small{opacity:.75}
"""

_MAX_REQUESTS = 4

Wires: TypeAlias = Sequence[tuple[Codec, Routes]]
"""Each protocol with its paths."""


def build_page_reader(catalog: Catalog, wires: Wires, root: str = "") -> Reader:
    """Return a reader that answers with the page of ``catalog``, built once; ``root`` is the mount path."""
    style = _STYLE.strip()
    body = _write_document(catalog, wires, style, root).encode()
    csp = "default-src 'none'; style-src 'sha256-" + _digest(style) + "'; frame-ancestors 'none'; base-uri 'none'"
    headers = (
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", csp.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"etag", b'"' + sha256(body).hexdigest()[:32].encode() + b'"'),
    )
    response = Response(200, headers, body)
    return lambda _: response


def _write_document(catalog: Catalog, wires: Wires, style: str, root: str) -> str:
    tools = "".join(_write_row(name, tool) for name, tool in catalog.names.items())
    rows = "".join(
        f"<tr><th scope=row>{escape(codec.title)}</th><td>{_write_links(routes, root)}</td></tr>"
        for codec, routes in wires
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(catalog.title)}</title><style>{style}</style>"
        f"<h1>{escape(catalog.title)} <small>{escape(catalog.version)}</small></h1>"
        f"<p>{escape(catalog.description)}</p>"
        f"<h2>Tools</h2><table>{tools}</table>"
        f"<h2>Wires</h2><p>Paste this page's address into a client of any of these. To run a tool, use "
        f"such a client, or send the request yourself: no link here runs one.</p><table>{rows}</table></html>"
    )


def _write_row(name: str, tool: Tool) -> str:
    notes = ["asks first" if tool.approval is not Approval.AUTO else "runs without asking"]
    notes += ["destroys something"] if tool.destructive else []
    about = tool.description.partition("\n")[0]
    return (
        f"<tr><th scope=row><code>{escape(name)}</code></th>"
        f"<td>{escape(about)}<br><small>{escape(', '.join(notes))}</small></td></tr>"
    )


def _write_links(routes: Routes, root: str) -> str:
    """Return links to the documents of a protocol, and the requests that run its tools as text."""
    documents = sorted(
        (path for (method, path), route in routes.items() if method == "GET" and not route.runs_tool), key=_sort_key
    )
    links = [f'<a href="{escape(root + path)}"><code>{escape(root + path)}</code></a>' for path in documents]
    requests = sorted(
        {(_sort_key(path), method) for (method, path), route in routes.items() if route.runs_tool or method != "GET"}
    )
    shown = [f"<code>{method} {escape(root + path)}</code>" for (_, path), method in requests[:_MAX_REQUESTS]]
    more = [f"and {len(requests) - _MAX_REQUESTS:,} more"] if len(requests) > _MAX_REQUESTS else []
    return " ".join([*links, *(["<br>"] if links and shown else []), *shown, *more])


def _sort_key(path: str) -> tuple[int, str]:
    return len(path), path


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
