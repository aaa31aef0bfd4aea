"""The configurations of ``deploy.md`` are valid, and the servers in front of toolwire work as the page says."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.certificates import write_certificate
from tests.programs import find_free_port
from toolwire import Value, connect_sync
from toolwire.cli.parser import list_commands
from toolwire.protocols.otc.standard import RFC

from .blocks import read_blocks
from .page import ROOT

NAME = "tools.example.com"
HEALTHY = {"$schema": RFC, "status": "OK"}
FILES = {
    block.name: block.text
    for block in read_blocks((ROOT / "docs/how-to/deploy.md").read_text(encoding="utf-8"))
    if block.name
}
WAIT_S = 60.0
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"  # where Debian puts servers, and a user's PATH does not look


@pytest.fixture
def start() -> Iterator[Callable[..., Any]]:
    """Start a program that listens at a port, wait until it does, and end it after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(argv: list[str], port: int, folder: Path) -> None:
        process = subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        started.append(process)
        until = time.monotonic() + WAIT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                assert process.poll() is None, process.stderr.read() if process.stderr else b""
                assert time.monotonic() < until, f"{argv[0]} does not listen"
                time.sleep(0.02)
            else:
                return

    yield begin
    for process in reversed(started):
        process.terminate()
        process.wait(WAIT_S)
        if process.stderr:
            process.stderr.close()


@pytest.fixture
def upstream(start: Callable[..., Any]) -> int:
    """The port of a server that was started as the page says."""
    port = find_free_port()
    argv = ["serve", "examples/calculator.py", "--port", str(port), "--allow-host", NAME]
    start([sys.executable, "-m", "toolwire", *argv], port, ROOT)
    return port


PROXIES: dict[str, tuple[str, Callable[[Path], list[str]]]] = {
    "nginx": ("nginx.conf", lambda file: ["-p", str(file.parent), "-c", str(file), "-g", NGINX]),
    "caddy": ("Caddyfile", lambda file: ["run", "--config", str(file), "--adapter", "caddyfile"]),
    "haproxy": ("haproxy.cfg", lambda file: ["-f", str(file)]),
}
NGINX_FOLDERS = (
    "".join(f"  {kind}_temp_path {{folder}}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    + "  access_log off;\n"
)
NGINX = "daemon off; pid nginx.pid; error_log stderr;"


def fit(text: str, *, port: int, upstream: int, folder: Path) -> str:
    """Return a configuration of the page for this machine: other ports and the files of the test."""
    for old, new in (
        ("127.0.0.1:9627", f"127.0.0.1:{upstream}"),
        ("listen 8443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("bind :8443", f"bind 127.0.0.1:{port}"),
        ("fullchain.pem", str(folder / "fullchain.pem")),
        ("privkey.pem", str(folder / "privkey.pem")),
        ("crt tools.pem", f"crt {folder / 'tools.pem'}"),
        (f"{NAME} {{\n\t", f"{NAME}:{port} {{\n\ttls {folder / 'fullchain.pem'} {folder / 'privkey.pem'}\n\t"),
        ("http {\n", "http {\n" + NGINX_FOLDERS.format(folder=folder)),
    ):  # fmt: skip
        text = text.replace(old, new)
    return "{\n\tadmin off\n}\n" + text if text.startswith(f"{NAME}:") else text


@pytest.mark.requirement("FU-15")
@pytest.mark.parametrize("proxy", PROXIES)
def test_calls_pass_through_a_proxy_with_tls(
    proxy: str, upstream: int, start: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = shutil.which(proxy, path=PATH)
    if program is None:
        pytest.skip(f"there is no {proxy}: apt-get install {proxy}")
    certificate, key = write_certificate(tmp_path, NAME)
    (tmp_path / "fullchain.pem").write_bytes(certificate.read_bytes())
    (tmp_path / "privkey.pem").write_bytes(key.read_bytes())
    (tmp_path / "tools.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    port = find_free_port()
    name, list_options = PROXIES[proxy]
    file = tmp_path / name
    file.write_text(fit(FILES[name], port=port, upstream=upstream, folder=tmp_path), encoding="utf-8")
    start([program, *list_options(file)], port, tmp_path)
    assert ask(port, tmp_path, "GET", "/health") == (200, HEALTHY)
    assert ask(port, tmp_path, "GET", "/api/add?a=1&b=2") == (200, 3)
    status, answer = ask(port, tmp_path, "POST", "/call", {"request": {"tool_id": "add", "input": {"a": 1, "b": 2}}})
    assert (status, answer["output"]) == (200, {"value": 3})


BELOW_A_PATH = {
    "nginx": (("location / {", "location /shop/ {"), ("proxy_pass http://toolwire;", "proxy_pass http://toolwire/;")),
    "caddy": (
        ("\treverse_proxy", "\thandle_path /shop/* {\n\treverse_proxy"),
        ("/health\n\t}\n", "/health\n\t}\n\t}\n"),
    ),
    "haproxy": (("option httpchk", "http-request replace-path /shop(/.*)?$ \\1\n    option httpchk"),),
}
"""What the page says to change in each configuration."""


@pytest.mark.requirement("FU-15")
@pytest.mark.parametrize("proxy", PROXIES)
def test_every_protocol_is_served_below_a_path(
    proxy: str, start: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = shutil.which(proxy, path=PATH)
    if program is None:
        pytest.skip(f"there is no {proxy}: apt-get install {proxy}")
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    certificate, key = write_certificate(tmp_path, NAME, "127.0.0.1")
    (tmp_path / "fullchain.pem").write_bytes(certificate.read_bytes())
    (tmp_path / "privkey.pem").write_bytes(key.read_bytes())
    (tmp_path / "tools.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
    upstream, port = find_free_port(), find_free_port()
    served = ["serve", "examples/calculator.py", "--port", str(upstream), "--allow-host", NAME, "--root-path", "/shop/"]
    start([sys.executable, "-m", "toolwire", *served], upstream, ROOT)
    name, list_options = PROXIES[proxy]
    text = fit(FILES[name], port=port, upstream=upstream, folder=tmp_path)
    text = text.replace(f"{NAME}:{port} {{", f"{NAME}:{port}, 127.0.0.1:{port} {{")
    for old, new in BELOW_A_PATH[proxy]:
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    start([program, *list_options(file)], port, tmp_path)
    assert ask(port, tmp_path, "GET", "/shop/health") == (200, HEALTHY)
    url = f"https://127.0.0.1:{port}/shop/"
    for protocol in ("openapi", "opentool", "otc", "mcp"):
        with connect_sync(url, protocol=protocol, ca_file=certificate, agree=bool) as remote:
            assert remote.call("add", {"a": 1, "b": 2}) == Value(3), protocol
    _, described = ask(port, tmp_path, "GET", "/shop/openapi.json")
    assert [server["url"] for server in described["servers"]] == ["/shop"]


class NamedConnection(HTTPSConnection):
    """A TLS connection to 127.0.0.1 for the host name of the page."""

    def connect(self) -> None:
        plain = socket.create_connection(("127.0.0.1", self.port), WAIT_S)
        self.sock = self._context.wrap_socket(plain, server_hostname=NAME)  # type: ignore[attr-defined]  # of the class


def ask(port: int, folder: Path, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    context = ssl.create_default_context(cafile=str(folder / "fullchain.pem"))
    until = time.monotonic() + WAIT_S
    while True:
        connection = NamedConnection(NAME, port, context=context, timeout=WAIT_S)
        connection.request(
            method, path, None if body is None else json.dumps(body), {"content-type": "application/json", "host": NAME}
        )
        with connection.getresponse() as answer:
            status, text = answer.status, answer.read()
        connection.close()
        # HAProxy and Caddy answer 503 until their first probe of /health has come back.
        if status != 503 or time.monotonic() > until:
            return status, json.loads(text)
        time.sleep(0.05)


@pytest.mark.requirement("FU-15")
def test_unknown_host_name_is_refused_with_advice_except_for_health(upstream: int) -> None:
    connection = HTTPConnection("127.0.0.1", upstream, timeout=WAIT_S)
    found = {}
    for path in ("/health", "/tools"):
        connection.request("GET", path, headers={"host": "10.1.2.3:9627"})
        with connection.getresponse() as answer:
            found[path] = (answer.status, answer.read().decode())
    connection.close()
    assert (found["/health"][0], json.loads(found["/health"][1])) == (200, HEALTHY)
    assert found["/tools"][0] == 421
    assert "--allow-host 10.1.2.3" in found["/tools"][1]


@pytest.mark.requirement("FU-15")
def test_systemd_unit_and_manifest_run_the_documented_command() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # the documented way to keep the case of names
    unit.read_string(FILES["toolwire.service"])
    manifest = yaml.safe_load(FILES["deployment.yaml"])
    pod = manifest["spec"]["template"]["spec"]
    docker = next(line for line in FILES["Dockerfile"].splitlines() if line.startswith("CMD "))
    commands = [unit["Service"]["ExecStart"].split(), pod["containers"][0]["args"], json.loads(docker[4:])]
    for words in commands:
        assert Path(words[0]).name == "toolwire"
        arguments = list_commands("1")[words[1]].parse_args(words[2:])
        assert arguments.hosts == [NAME]
    assert pod["containers"][0]["readinessProbe"]["httpGet"] == {"path": "/health", "port": 9627}
    grace = [pod["terminationGracePeriodSeconds"], int(unit["Service"]["TimeoutStopSec"])]
    assert min(grace) > 30  # a graceful shutdown takes up to 30 seconds


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    file = tmp_path / "toolwire.service"
    file.write_text(FILES["toolwire.service"].replace("/opt/toolwire/bin/toolwire", "/bin/true"), encoding="utf-8")
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert "toolwire.service" not in checked.stderr
