"""The configurations of ``deploy.md`` and ``behind-a-proxy.md`` are valid, and proxies work as the page says."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import find_free_port
from tests.support.proxies import FILES, NAME, PROXIES, WAIT_S, run_program, run_proxy, run_server, trust_certificate
from toolwire import Value, connect_sync
from toolwire.cli.parser import list_commands
from toolwire.protocols.otc.standard import RFC

from .page import ROOT

SERVE = [sys.executable, "-m", "toolwire", "serve", str(ROOT / "examples/calculator.py")]
HEALTHY = {"$schema": RFC, "status": "OK"}


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[int]:
    """The port of a server that was started as the page says."""
    port = find_free_port()
    with run_program([*SERVE, "--port", str(port), "--allow-host", NAME], port, tmp_path):
        yield port


@pytest.mark.requirement("FU-15")
@pytest.mark.parametrize("proxy", PROXIES)
def test_calls_pass_through_a_proxy_with_tls(proxy: str, upstream: int, tmp_path: Path) -> None:
    with run_proxy(proxy, tmp_path, upstream) as port:
        assert ask(port, tmp_path, "GET", "/health") == (200, HEALTHY)
        assert ask(port, tmp_path, "GET", "/api/add?a=1&b=2") == (200, 3)
        body = {"request": {"tool_id": "add", "input": {"a": 1, "b": 2}}}
        status, answer = ask(port, tmp_path, "POST", "/call", body)
        assert (status, answer["output"]) == (200, {"value": 3})


BELOW_A_PATH = {
    "nginx": (("location / {", "location /shop/ {"), ("proxy_pass http://toolwire;", "proxy_pass http://toolwire/;")),
    "caddy": (
        ("\treverse_proxy", "\thandle_path /shop/* {\n\treverse_proxy"),
        ("\t\t}\n\t}\n", "\t\t}\n\t}\n\t}\n"),
    ),
    "haproxy": (("option httpchk", "http-request replace-path /shop(/.*)?$ \\1\n    option httpchk"),),
}
"""What the page says to change in each configuration."""


@pytest.mark.requirement("FU-15")
@pytest.mark.parametrize("proxy", PROXIES)
def test_every_protocol_is_served_below_a_path(proxy: str, tmp_path: Path) -> None:
    upstream = find_free_port()
    argv = [*SERVE, "--port", str(upstream), "--allow-host", NAME, "--root-path", "/shop/"]

    def change(text: str) -> str:
        text = re.sub(rf"({NAME}:(\d+)) {{", r"\1, 127.0.0.1:\2 {", text)
        for old, new in BELOW_A_PATH[proxy]:
            assert old in text
            text = text.replace(old, new)
        return text

    with run_server(argv, upstream, tmp_path), run_proxy(proxy, tmp_path, upstream, change=change) as port:
        assert ask(port, tmp_path, "GET", "/shop/health") == (200, HEALTHY)
        url = f"https://127.0.0.1:{port}/shop/"
        for protocol in ("openapi", "opentool", "otc", "mcp"):
            certificate = tmp_path / "fullchain.pem"
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
    context = trust_certificate(folder)
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
