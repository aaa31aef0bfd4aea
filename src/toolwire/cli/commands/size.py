"""``toolwire size``: estimate how many tokens the declarations of the tools cost, for each provider.

One token is counted as four characters of JSON. The provider's own count differs by some percent.
"""

from __future__ import annotations

import argparse
import sys

from toolwire.adapters.dialects import Provider
from toolwire.adapters.tool_declarations import CHARACTERS_A_TOKEN, measure_tools
from toolwire.cli.exits import OK
from toolwire.cli.targets.open_target import open_target, read_reach
from toolwire.cli.terminal.screen import escaped, json_text
from toolwire.cli.terminal.slow_work import announce_if_slow
from toolwire.cli.terminal.table import print_table
from toolwire.cli.terminal.terminal_approver import build_terminal_approver
from toolwire.core.model import Json


def run(arguments: argparse.Namespace) -> int:
    """Print the tokens of each tool for each provider, the largest first, and the totals."""
    opening = open_target(arguments.target, read_reach(arguments), build_terminal_approver("ask"))
    with opening as source, announce_if_slow("Writing the declaration of every tool"):
        sizes = measure_tools(source.catalog())
    totals = {provider: sum(size[provider] for size in sizes.values()) for provider in Provider}
    if arguments.json:
        data: Json = {"characters_a_token": CHARACTERS_A_TOKEN, "total": totals, "tools": sizes}
        print(json_text(data, indent=2))
        return OK
    ordered = sorted(sizes.items(), key=lambda pair: (-max(pair[1].values()), pair[0]))
    rows = [(escaped(name), *(f"{size[provider]:,}" for provider in Provider)) for name, size in ordered]
    rows.append(("total", *(f"{totals[provider]:,}" for provider in Provider)))
    print_table(("tool", *Provider), rows, sys.stdout)
    print(f"Token estimate: {CHARACTERS_A_TOKEN} characters of a declaration count as one token.")
    return OK
