"""``toolwire conform``: check whether a server follows its protocols, and print each check."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing

from toolwire.cli.exits import FAILED, OK
from toolwire.cli.parser import read_remote
from toolwire.cli.terminal.screen import escaped, json_text
from toolwire.cli.terminal.slow_work import announce_if_slow
from toolwire.cli.terminal.table import print_table
from toolwire.core.codec import ConnectError
from toolwire.core.errors import UsageError
from toolwire.core.url_display import show_url
from toolwire.framing import jsontext
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.targets.url_options import check_url, read_access, read_headers, read_key
from toolwire.testing.server_checks import PROTOCOLS, CheckReport, CheckStatus, ProbeTool, conform
from toolwire.testing.server_checks.probe import open_probe
from toolwire.testing.server_checks.run_checks import format_markdown, reports_to_json, summarize_report

_COLUMNS = ("check", "requirement", "outcome", "what")


def run(arguments: argparse.Namespace) -> int:
    """Check the server and print each check and how it ended; a check that failed makes the exit code 1."""
    target = read_target(arguments.target)
    if not isinstance(target, UrlTarget):
        raise UsageError("conform needs a URL. Serve the file first, with `toolwire serve`.")
    if arguments.protocol not in (None, *PROTOCOLS):
        raise UsageError(f"Unknown protocol: {arguments.protocol!r}. Choose from {', '.join(PROTOCOLS)}.")
    key = read_key(arguments.key, arguments.key_env)
    headers = read_headers(read_remote(arguments))
    url, tool = check_url(target.text), _read_call(arguments.call)
    with announce_if_slow(f"Checking {show_url(url)}"):
        reports = conform(
            url,
            protocol=arguments.protocol,
            key=key,
            call=tool,
            headers=headers,
            wait_s=arguments.timeout,
            **read_access(read_remote(arguments)),
        )
    if not reports:
        _check_reached(url, arguments)
        text = (
            f"{show_url(target.text)} does not speak any of {', '.join(PROTOCOLS)}. Name one with --protocol "
            "to see why."
        )
        raise ConnectError(text, ())
    if arguments.json:
        print(json_text(reports_to_json(reports), indent=2))
    elif arguments.markdown:
        print("\n\n".join("\n".join([summarize_report(report), "", *format_markdown(report)]) for report in reports))
    else:
        _print(reports)
    return FAILED if any(report.failures for report in reports) else OK


def _check_reached(url: str, arguments: argparse.Namespace) -> None:
    """Check that something answers at ``url``, if it has none of the protocols.

    Raises:
        ConnectError: nothing does; the text says why.
    """
    access, headers = read_access(read_remote(arguments)), read_headers(read_remote(arguments))
    with closing(open_probe(url, access=access, headers=headers, wait_s=arguments.timeout)) as probe:
        answer = probe.get("", keyed=False)
    if not answer.status:
        raise ConnectError(answer.text, ())


def _read_call(given: Sequence[str] | None) -> ProbeTool | None:
    if given is None:
        return None
    tool, text = given
    arguments = jsontext.read(text.encode())
    if not isinstance(arguments, dict):
        raise UsageError(f"The arguments of {tool} must be a JSON object, such as '{{\"a\": 1}}'.")
    return ProbeTool(tool, arguments)


def _print(reports: Sequence[CheckReport]) -> None:
    for report in reports:
        rows = [
            (
                one.number,
                one.requirement,
                one.standing.upper() if one.standing is CheckStatus.FAILED else str(one.standing),
                escaped(f"{one.sentence} {one.why}".strip()),
            )
            for one in report.outcomes
        ]
        print_table(_COLUMNS, rows, sys.stdout)
        print(f"\n{summarize_report(report)}\n")
