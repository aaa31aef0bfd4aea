"""Whoever tries a pair of the matrix that is impossible gets one sentence that says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.crossings.checks import Bench
from tests.crossings.clients import Call, Target
from tests.crossings.covering import Impossible, cover, read_matrix
from tests.crossings.deployments import KIT, Deployments, serve
from tests.crossings.options import Flavour
from tests.interop.mcp_makers import INSTALLED, MISSING

pytestmark = pytest.mark.requirement("CR-01")
MATRIX = read_matrix()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(Deployments(tmp_path_factory.mktemp("impossible")))
    yield bench
    bench.close()


def build_target(bench: Bench) -> Target:
    running = bench.deployments.open("one process", Flavour("nobody", wants_receipts=False))
    return Target(
        url=running.url,
        command=[],
        ca_file=bench.deployments.ca_file,
        token="",
        folder=bench.deployments.folder,
        environment=bench.deployments.build_environment(),
    )


def run_program(bench: Bench, *words: str, **more: str) -> str:
    """Return what a program prints that fails."""
    environment, folder = bench.deployments.build_environment() | more, bench.deployments.folder
    done = subprocess.run(
        words, env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False, input=""
    )
    assert done.returncode != 0
    return done.stderr


def run_toolwire(bench: Bench, *words: str, **more: str) -> str:
    return run_program(bench, sys.executable, "-m", "toolwire", *words, **more)


def serve_beside_gateway(bench: Bench) -> str:
    """Return what a server prints that is started in the folder of a gateway where people sign in."""
    folder = bench.deployments.folder / "beside"
    folder.mkdir()
    (folder / "toolwire.toml").write_text('[sign-in]\nname = "Team"\n')
    return serve(bench.deployments, folder, []).logs[0].read_text()


def call_with(bench: Bench, client: str, path: str = "/mcp") -> tuple[str, str]:
    """Return the revision that a client speaks, and what its user reads if the call fails."""
    call = Call(tool="read", row="impossible", protocol="MCP 2026-07-28", consent="auto", kind="read")
    if not INSTALLED:
        pytest.skip(MISSING)
    outcome = bench.open_driver(client).call(build_target(bench), call, path)
    return outcome.version, outcome.refusal


ATTEMPTS: Mapping[str, Callable[[Bench, Impossible], list[str]]] = {
    "--protocol mcp-2025-11-25": lambda bench, _: [
        run_toolwire(bench, "call", "http://127.0.0.1:1", "read", "--protocol", "mcp-2025-11-25")
    ],
    "the newest revision": lambda bench, _: [call_with(bench, "Python SDK 1.x")[0]],
    "the address of the document": lambda bench, one: [call_with(bench, one.pair["client"][0], "/openapi.json")[1]],
    "--protocol with a program": lambda bench, one: [
        run_toolwire(bench, "call", f"stdio:toolwire serve {KIT} --stdio", "read", "--protocol", protocol.lower())
        for protocol in one.pair["protocol"]
    ],
    "--stdio --api-key-file": lambda bench, _: [
        run_toolwire(bench, "serve", str(KIT), "--stdio", "--api-key-file", "keys.txt")
    ],
    "--stdio --jwks": lambda bench, _: [
        run_toolwire(bench, "serve", str(KIT), "--stdio", "--jwks", "jwks.json", "--jwt-audience", "tools")
    ],
    "toolwire serve beside the file of a gateway": lambda bench, _: [serve_beside_gateway(bench)],
    "curl with a program": lambda bench, _: [run_program(bench, "curl", f"stdio:toolwire serve {KIT} --stdio")],
}
"""How a user tries each of them; returns what the user reads each time."""


def name_pair(one: Impossible) -> str:
    return "-".join(values[0].replace(" ", "_") for values in one.pair.values())


@pytest.mark.parametrize("one", MATRIX.impossible, ids=name_pair)
def test_an_impossible_pair_has_a_sentence(one: Impossible, bench: Bench) -> None:
    for reply in ATTEMPTS[one.attempt](bench, one):
        assert one.sentence in reply


def test_keys_in_the_environment_are_not_for_a_program(bench: Bench) -> None:
    # no option was typed, so the sentence says where they can come from
    reply = run_toolwire(bench, "serve", str(KIT), "--stdio", TOOLWIRE_API_KEYS="key-of-ann")
    assert "sends no key and no token: leave out" in reply
    assert "TOOLWIRE_API_KEYS" in reply


def test_every_other_pair_is_in_a_row() -> None:
    _, unreachable = cover(MATRIX, 2)
    assert unreachable == []
