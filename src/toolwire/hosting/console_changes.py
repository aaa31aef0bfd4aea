"""Let a gateway's operators add and remove upstreams in its console.

Rules:
- Only a server at a URL can be added. Without an approval at the terminal, no program starts and no file is read.
- None of this machine's secrets is sent. An upstream that is added here has no key, or uses each caller's own.
"""
# PL-08

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from toolwire.console.source import NewUpstream, UpstreamChanges
from toolwire.core.errors import ToolwireError, UsageError
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import read_origin

from .gateway_changes import ChangedBy, add_upstream, check_upstream, remove_upstream, write_member
from .running_gateway import read_record

_MAX_URL_LENGTH: Final = 2_000
_MAX_SCOPES: Final = 100


def build_upstream_changes(record_path: str) -> UpstreamChanges | None:
    """Return the functions that change the gateway with the record at ``record_path``, or None without a record."""
    record = read_record(Path(record_path)) if record_path else None
    if record is None:
        return None
    file = Path(record.file)

    def change(operator: str, run: Callable[[ChangedBy], object]) -> str:
        try:
            run(ChangedBy(name=operator, channel="console", records=[Path(record_path)]))
        except ToolwireError as error:
            return str(error)
        return ""

    def add(operator: str, upstream: NewUpstream) -> str:
        def check_and_add(by: ChangedBy) -> None:
            lines = _write_lines(upstream)
            check_upstream(upstream.name, lines)
            add_upstream(file, upstream.name, lines, by)

        return change(operator, check_and_add)

    def remove(operator: str, name: str) -> str:
        return change(operator, lambda by: remove_upstream(file, name, by))

    return UpstreamChanges(add, remove)


def _write_lines(upstream: NewUpstream) -> list[str]:
    url = upstream.url
    origin = read_origin(url)
    # FILE.json:NAME names a program, whatever precedes it.
    if origin is None or origin.scheme not in ("http", "https") or ".json:" in url or len(url) > _MAX_URL_LENGTH:
        text = "The console can add only a server with a URL, such as https://tasks.example/mcp."
        raise UsageError(f"{text} Add a program or a file in a terminal: `toolwire gateway add`.")
    if origin.has_user_info or show_url(url) != url:
        raise UsageError(f"{show_url(url)} might contain a secret, and secrets are not stored in the gateway file.")
    if len(upstream.scopes) > _MAX_SCOPES:
        raise UsageError(f"An upstream can have at most {_MAX_SCOPES} scopes.")
    lines = [write_member("target", url)]
    if upstream.scopes:
        lines.append(write_member("scopes", upstream.scopes))
    if upstream.by_caller:
        lines.append(write_member("credentials", "caller"))
    if upstream.whole_document:
        lines.append(write_member("include", "all"))
    return lines
