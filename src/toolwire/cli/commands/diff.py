"""``toolwire diff``: show how the tools of a URL differ from the lock. The exit code is 1 if they do."""

from __future__ import annotations

import argparse
from pathlib import Path

from toolwire.cli.exits import FAILED, OK
from toolwire.cli.targets.open_target import read_reach
from toolwire.cli.terminal.screen import escaped, json_text
from toolwire.consent.definition_lock import Difference
from toolwire.core.errors import UsageError
from toolwire.core.model import Json
from toolwire.core.url_display import show_url
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.targets.url_options import read_lock_file

from .lock import fetch_definitions, list_differences


def run(arguments: argparse.Namespace) -> int:
    """Print every tool that was added, removed or changed, and whether that is wider, narrower or the same."""
    if not isinstance(read_target(arguments.target), UrlTarget):
        raise UsageError("diff needs a URL. Local files change only when you edit them.")
    lock = read_lock_file(Path(arguments.file))
    pinned = fetch_definitions(arguments.target, read_reach(arguments))
    if not lock.has_connection(pinned.url):
        there, asked = show_url(pinned.url), show_url(arguments.target)
        raise UsageError(f"{arguments.file} does not contain {there}. `toolwire lock {asked}` adds it.")
    found = lock.find_differences(pinned.url, pinned.definitions)
    if arguments.json:
        print(json_text([_as_json(one) for one in found], indent=2))
    else:
        print(
            "\n".join(list_differences(found))
            or (f"{escaped(show_url(pinned.url))} has not changed since it was locked.")
        )
    return FAILED if found else OK


def _as_json(one: Difference) -> dict[str, Json]:
    return {
        "tool": one.tool,
        "what": one.what,
        "direction": one.direction,
        "changes": [change._asdict() for change in one.changes],
    }
