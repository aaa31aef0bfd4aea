"""``GET /``: a small page that says what is served here. No script, no outside resource."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Codec, Reader
from toolwire.core.http import Response
from toolwire.core.model import Approval, Tool

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.4rem .6rem .4rem 0;vertical-align:top;
border-bottom:1px solid #8884}code{font:.9em ui-monospace,monospace}small{opacity:.75}
"""

_PATHS = {
    "openapi": ("/.well-known/llm.json", "/openapi.json"),
    "opentool": ("/opentool/version", "/opentool/load"),
    "otc": ("/tools", "/health"),
    "mcp": ("/mcp",),
}


def page(catalog: Catalog, codecs: Sequence[Codec], root: str = "") -> Reader:
    """Return a reader that answers with the page of ``catalog``, made once; ``root`` is where we are mounted."""
    style = _STYLE.strip()
    body = _document(catalog, codecs, style, root).encode()
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


def _document(catalog: Catalog, codecs: Sequence[Codec], style: str, root: str) -> str:
    tools = "".join(_row(name, tool) for name, tool in catalog.names.items())
    wires = "".join(
        f"<tr><th scope=row>{escape(codec.title)}</th><td>{_links(codec, escape(root))}</td></tr>" for codec in codecs
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(catalog.title)}</title><style>{style}</style>"
        f"<h1>{escape(catalog.title)} <small>{escape(catalog.version)}</small></h1>"
        f"<p>{escape(catalog.description)}</p>"
        f"<h2>Tools</h2><table>{tools}</table>"
        f"<h2>Wires</h2><p>Paste this page's address into a client of any of these.</p><table>{wires}</table></html>"
    )


def _row(name: str, tool: Tool) -> str:
    notes = ["asks first" if tool.approval is not Approval.AUTO else "runs without asking"]
    notes += ["destroys something"] if tool.destructive else []
    about = tool.description.partition("\n")[0]
    return (
        f"<tr><th scope=row><code>{escape(name)}</code></th>"
        f"<td>{escape(about)}<br><small>{escape(', '.join(notes))}</small></td></tr>"
    )


def _links(codec: Codec, root: str) -> str:
    paths = [root + path for path in _PATHS.get(codec.name, ())]
    return " ".join(f'<a href="{path}"><code>{path}</code></a>' for path in paths)


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
