"""``toolwire explain`` shows every look at a URL, and which protocol won."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolwire.hosting.targets.load_code import open_code
from toolwire.hosting.targets.target import FileTarget
from toolwire.protocols import BUILTIN
from toolwire.server import asgi
from toolwire.testing.loopback import background


def test_every_probe_is_printed_with_its_meaning_and_the_chosen_protocol(
    site: str, toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("explain", site)
    table, _, verdict = outcome.out.partition("\n\n")
    assert outcome.code == 0
    assert f"{site}/.well-known/llm.json" in table
    assert {line.split()[0] for line in table.splitlines()[1:]} == {codec.name for codec in BUILTIN}
    assert verdict.startswith(f"{BUILTIN[0].title} was chosen: 9 tools at {site}")
    assert all(f"{codec.title} (9 tools)" in verdict for codec in BUILTIN[1:])


def test_json_output_has_probes_chosen_protocol_and_others(site: str, toolwire: Callable[..., Any]) -> None:
    data = json.loads(toolwire("explain", site, "--json").out)
    assert data["url"] == site
    assert (data["chosen"]["protocol"], data["chosen"]["tools"]) == (BUILTIN[0].name, 9)
    assert [peer["protocol"] for peer in data["others"]] == [codec.name for codec in BUILTIN[1:]]
    assert {tuple(probe) for probe in data["probes"]} == {("protocol", "url", "status", "meaning", "accepted")}
    assert {probe["protocol"] for probe in data["probes"] if probe["accepted"]} == {codec.name for codec in BUILTIN}


def test_unreachable_server_gives_exit_code_4_with_every_probe(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("explain", "127.0.0.1:1")
    assert outcome.code == 4
    assert "http://127.0.0.1:1/.well-known/llm.json" in outcome.out
    assert outcome.err.startswith("toolwire: http://127.0.0.1:1 could not be reached")
    data = json.loads(toolwire("explain", "127.0.0.1:1", "--json").out)
    assert (data["chosen"], data["others"]) == (None, [])
    assert {probe["status"] for probe in data["probes"]} == {None}


def test_key_is_used_if_the_server_asks_for_one(desk: Path, toolwire: Callable[..., Any]) -> None:
    with background(asgi(open_code(FileTarget(desk)), api_keys=["canary-key"])) as url:
        outcome = toolwire("explain", url, "--key", "canary-key")
    assert outcome.code == 0
    assert "canary" not in outcome.out + outcome.err


def test_explain_refuses_a_file(desk: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("explain", desk)
    assert (outcome.code, outcome.out) == (2, "")
    assert "explain needs a URL. A file speaks no protocol until it is served" in outcome.err
