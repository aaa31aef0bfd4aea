"""https with ``toolwire serve``, and a client in a private network: certificates of one's own, http by permission."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.certificates import write_certificate
from tests.support.serve_process import serve_at
from toolwire import Value, connect, connect_sync
from toolwire.core.codec import ConnectError
from toolwire.opentool.client import SyncOpenToolClient

ROOT = Path(__file__).parents[2]
Run = Callable[..., Any]


@pytest.mark.requirement("XL-010", "D-05", "FU-15")
@pytest.mark.parametrize("workers", [1, 2])
def test_every_protocol_is_served_over_https(desk: Path, tmp_path: Path, workers: int) -> None:
    cert, key = write_certificate(tmp_path, "localhost", "127.0.0.1")
    with serve_at(desk, "--tls-cert", cert, "--tls-key", key, "--workers", workers) as url:
        assert url.startswith("https://127.0.0.1:")
        for protocol in ("openapi", "opentool", "otc", "mcp"):
            with connect_sync(url, protocol=protocol, ca_file=cert, agree=bool) as remote:
                assert remote.call("add", {"a": 1, "b": 2}) == Value(3), protocol
                assert remote.url.startswith(url)

        async def call() -> object:
            async with connect(url, ca_file=str(cert)) as remote:
                return await remote.call("add", {"a": 1, "b": 2})

        assert asyncio.run(call()) == Value(3)
        with SyncOpenToolClient(url, ca_file=cert) as client:
            assert client.version().version


def test_server_with_an_untrusted_certificate_is_refused(desk: Path, tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path, "localhost", "127.0.0.1")
    other, _ = write_certificate(tmp_path, "other.example", "127.0.0.1")
    with serve_at(desk, "--tls-cert", cert, "--tls-key", key) as url:
        for ca_file in (None, other):
            with pytest.raises(ConnectError, match="certificate"), connect_sync(url, ca_file=ca_file):
                pass


@pytest.mark.parametrize(
    "command",
    [
        ("tools", "{url}", "--json"),
        ("call", "{url}", "add", "a=1", "--json"),
        ("explain", "{url}", "--json"),
        ("conform", "{url}", "--json", "--protocol", "opentool"),
        ("convert", "{url}", "--to", "mcp"),
        ("size", "{url}", "--json"),
        ("lock", "{url}", "--file", "{folder}/toolwire.lock"),
    ],
    ids=lambda command: command[0],
)
def test_each_command_takes_a_ca_file(toolwire: Run, desk_by_https: tuple[str, Path], command: Any) -> None:
    url, cert = desk_by_https
    argv = [word.format(url=url, folder=cert.parent) for word in command]
    assert toolwire(*argv).code != 0
    done = toolwire(*argv, "--ca-file", cert)
    assert done.code == 0, done.err


@pytest.fixture
def desk_by_https(desk: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    cert, key = write_certificate(tmp_path, "localhost", "127.0.0.1")
    with serve_at(desk, "--tls-cert", cert, "--tls-key", key) as url:
        yield url, cert


def test_unusable_tls_files_are_refused_in_one_sentence(toolwire: Run, desk: Path, tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path, "localhost")
    _, other = write_certificate(tmp_path, "other.example")
    _, locked = write_certificate(tmp_path, "locked.example", password="hidden")
    text = tmp_path / "text.pem"
    text.write_text("nothing of the kind")
    for argv, expected in (
        (["--tls-cert", cert], "--tls-cert and --tls-key must be given together"),
        (["--tls-key", key], "--tls-cert and --tls-key must be given together"),
        (["--tls-cert", cert, "--tls-key", tmp_path / "none"], "none cannot be read: No such file"),
        (["--tls-cert", cert, "--tls-key", other], "the key is not that of the certificate"),
        (["--tls-cert", text, "--tls-key", key], "not a PEM file of its kind"),
        (["--tls-cert", cert, "--tls-key", locked], "is password-protected. Use a key without a password"),
    ):
        done = toolwire("serve", desk, *argv)
        assert (done.code, done.out) == (2, "")
        assert expected in done.err
        assert "Traceback" not in done.err


def find_refused(url: str, keys: list[str]) -> set[str]:
    """Return which of ``keys`` the server does not take, by a connection of its own for each."""
    asked = {
        key: httpx.get(f"{url}/api/add?a=1", headers={"authorization": f"Bearer {key}"}, timeout=60) for key in keys
    }
    return {key for key, answer in asked.items() if answer.status_code == 401}


@pytest.mark.requirement("GW-01")
def test_workers_take_a_changed_key_file_on_sighup(desk: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("old-key ada\nkey-of-bob bob\n")
    argv = [sys.executable, "-m", "toolwire", "serve", desk, "--port", "0", "--workers", "2", "--api-key-file", file]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            url = next(line.split()[1] for line in process.stdout if line.startswith("URL "))
            assert find_refused(url, ["old-key", "key-of-bob", "new-key"]) == {"new-key"}
            file.unlink()
            process.send_signal(signal.SIGHUP)
            assert "keys.txt" in next(line for line in process.stderr if "not taken" in line)
            assert find_refused(url, ["old-key", "key-of-bob", "new-key"]) == {"new-key"}
            file.write_text("new-key ada\n")
            process.send_signal(signal.SIGHUP)
            assert next(line for line in process.stderr if "Reloaded" in line)
            until = time.monotonic() + 60
            while find_refused(url, ["old-key", "key-of-bob", "new-key"]) != {"old-key", "key-of-bob"}:
                assert time.monotonic() < until, "the old keys are still taken"
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


@pytest.mark.parametrize("workers", [1, 2])
def test_documents_begin_with_the_path_that_a_proxy_takes_off(desk: Path, workers: int) -> None:
    with serve_at(desk, "--root-path", "/shop/", "--workers", workers) as url:
        described = httpx.get(f"{url}/openapi.json", timeout=60).json()
        assert [server["url"] for server in described["servers"]] == ["/shop"]


@pytest.mark.parametrize(
    "path", ["shop", "//shop", "/a b", "/../x", "/a?b", "/" + "a" * 300, "https://example.com/shop"]
)
def test_root_path_that_is_no_path_is_refused(toolwire: Run, desk: Path, path: str) -> None:
    ran = toolwire("serve", desk, "--root-path", path)
    assert ran.code == 2
    assert ran.err.startswith("toolwire: --root-path must be a path such as /tools")


@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_server_that_is_not_there_is_said_in_the_same_words_for_each_protocol(toolwire: Run, protocol: str) -> None:
    ran = toolwire("tools", "http://127.0.0.1:1", "--protocol", protocol)
    reason = "it refused the connection. Is the server running?"
    assert (ran.code, ran.err) == (4, f"toolwire: http://127.0.0.1:1 could not be reached: {reason}\n")


@pytest.mark.parametrize("command", [["tools"], ["call", "ping"], ["show", "ping"]])
def test_url_that_may_not_be_contacted_is_said_in_one_sentence(toolwire: Run, command: list[str]) -> None:
    ran = toolwire(command[0], "http://no.such.invalid", *command[1:])
    assert ran.code == 4
    assert ran.err.startswith("toolwire: http://no.such.invalid was not contacted: http is only for this machine")
    assert "could not be reached" not in ran.err


def test_network_options_are_validated(toolwire: Run, tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("nothing of the kind")
    for argv, expected in (
        (["--ca-file", tmp_path / "none"], f"Cannot use the CA file {tmp_path / 'none'}: No such file or directory."),
        (["--ca-file", text], "it has no PEM certificate"),
        (["--allow-http", "https://10.9.8.7"], "uses https. Allow it with allow_private (--allow-private)"),
        (
            ["--allow-http", "10.9.8.7"],
            ("This URL is incomplete. Write it with its scheme, such as https://example.com"),
        ),
        (["--allow-private", "https://10.9.8.7/path"], "Write only the origin, https://10.9.8.7."),
    ):
        done = toolwire("tools", "http://10.9.8.7:9627", *argv)
        assert done.code == 2
        assert expected in done.err


@pytest.mark.requirement("XL-010", "D-05", "FU-15")
def test_http_in_a_private_network_needs_permission_for_its_origin(desk: Path) -> None:
    ip = shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    unshare = ["unshare", "--net", *(["--map-root-user"] if os.getuid() else [])]
    if ip is None or subprocess.run([*unshare, ip, "link"], capture_output=True, check=False).returncode:
        pytest.skip("there is no network namespace: a private network needs `ip` and `unshare --net`, as root has them")
    python = f"{sys.executable} -m toolwire"
    origin = "http://10.9.8.7:9627"
    script = f"""
        {ip} link set lo up; {ip} addr add 10.9.8.7/32 dev lo; {ip} addr add 203.0.114.5/32 dev lo
        {python} serve {desk} --host 0.0.0.0 --api-key k --allow-host 10.9.8.7 >served 2>/dev/null &
        served=$!
        until grep -q Ctrl-C served; do kill -0 $served || exit 9; done
        {python} call {origin} add a=1 b=2 --key k --json
        {python} call {origin} add a=1 b=2 --key k --json --allow-private {origin}
        {python} call {origin} add a=1 b=2 --key k --json --allow-http {origin}
        {python} call http://203.0.114.5:9627 add a=1 --key k --json --allow-http http://203.0.114.5:9627
        kill $served; wait $served
    """
    done = subprocess.run(
        [*unshare, "bash", "-c", script], cwd=desk.parent, capture_output=True, text=True, check=False, timeout=120
    )
    decoder, text, answers = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        answer, end = decoder.raw_decode(text)
        answers.append(answer)
        text = text[end:].strip()
    closed, private, opened, public = answers
    for refused in (closed, private):
        assert not refused["ok"]
        assert "allow the origin with allow_http (--allow-http)" in refused["message"]
    assert opened == {"ok": True, "value": 3}
    assert "not in a private network" in public["message"]
