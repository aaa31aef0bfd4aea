"""``toolwire find``: find the tools of a target by words, and print what a model reads about them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from toolwire.cli.exits import FAILED, OK
from toolwire.cli.parser import read_remote
from toolwire.cli.targets.open_target import open_target
from toolwire.cli.terminal.screen import escaped, json_text, print_error
from toolwire.cli.terminal.terminal_approver import build_terminal_approver
from toolwire.find import View, find_tools
from toolwire.hosting.targets.url_options import read_url_options

from .lock import find_differences, list_differences
from .lock import read_lock_file as read_locked
from .tools import describe


def run(arguments: argparse.Namespace) -> int:
    """Print the tools that the words describe, best first, as the text that a model reads or as JSON."""
    # FI-01
    locked = read_locked(Path(arguments.file)) if arguments.locked else None
    options = read_url_options(
        read_remote(arguments), [arguments.target], discovery_s=arguments.timeout, offline=arguments.offline
    )
    with open_target(arguments.target, replace(options, locked=locked), build_terminal_approver("ask")) as source:
        view = View(find_level=source.find_level)
        found = find_tools(source.catalog(), " ".join(arguments.words), view, arguments.limit)
        changed = find_differences(locked, source) if locked is not None else ()
        listed = [describe(tool, source.find_level(tool)) for tool in found.tools.values()] if arguments.json else []
    for line in list_differences(changed):
        print_error(line)
    print(json_text(listed, indent=2) if arguments.json else "\n".join(map(escaped, found.text.splitlines())))
    return FAILED if changed else OK
