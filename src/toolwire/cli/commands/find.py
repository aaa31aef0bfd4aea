"""``toolwire find``: find the tools of a target by words, and print what a model reads about them."""

from __future__ import annotations

import argparse

from toolwire.cli.exits import FAILED, OK
from toolwire.cli.terminal.screen import escaped, json_text, print_error
from toolwire.find import View, find_tools

from .lock import list_differences, open_tools
from .tools import describe


def run(arguments: argparse.Namespace) -> int:
    """Print the tools that the words describe, best first, as the text that a model reads or as JSON."""
    # FI-01
    with open_tools(arguments) as (source, changed):
        view = View(find_level=source.find_level)
        found = find_tools(source.catalog(), " ".join(arguments.words), view, arguments.limit)
        listed = [describe(tool, source.find_level(tool)) for tool in found.tools.values()] if arguments.json else []
    for line in list_differences(changed):
        print_error(line)
    print(json_text(listed, indent=2) if arguments.json else "\n".join(map(escaped, found.text.splitlines())))
    return FAILED if changed else OK
