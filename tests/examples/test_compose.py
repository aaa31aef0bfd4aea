# ruff: noqa: F811 - fixtures are imported
"""The parts of compose.yaml, started as processes: its commands, its proxy with TLS, its PostgreSQL and its Redis."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.certificates import write_certificate
from tests.postgres import Postgres, shared_postgres  # noqa: F401 - the fixture
from tests.programs import RedisServer, find_free_port
from tests.support.proxies import FILES
from tests.support.waiting import wait_until

FOLDER = Path(__file__).parents[2] / "examples" / "compose"
NAME = "tools.example.com"
PATIENCE_S = 60.0
CLIENT = "127.0.0.2"
Start = Callable[[list[str], dict[str, str], int | None], None]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a program, and wait until it listens at the port or has said a line."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(argv: list[str], environment: dict[str, str], port: int | None) -> None:
        log = tmp_path / f"{port}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(argv, cwd=FOLDER, stdout=file, stderr=file, env={**os.environ, **environment})
        started.append(process)
        if port is None:
            assert wait_until(log.read_text).startswith("works")
            return
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, f"{argv[0]} does not listen"
                time.sleep(0.05)
            else:
                return

    yield begin
    for process in reversed(started):
        process.terminate()
        process.wait(PATIENCE_S)


@pytest.mark.requirement("ST-03")
def test_parts_of_the_compose_file_run_a_long_call_behind_the_proxy(
    start: Start, shared_postgres: Postgres, tmp_path: Path
) -> None:
    pytest.importorskip("docket", reason="pydocket is not here: install toolwire[docket] to prove this")
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not here: apt-get install nginx-light to prove this")
    services: Any = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    assert services.keys() == {"server1", "server2", "worker", "postgres", "redis", "proxy"}
    redis = RedisServer(tmp_path)
    try:
        wait_until(redis.answers)
        values = {
            "TOOLWIRE_STATE": shared_postgres.create_database(),
            "TOOLWIRE_WAKE": f"redis://127.0.0.1:{redis.port}",
            "TOOLWIRE_API_KEYS": "key-of-ada ada",
        }
        assert services["server1"]["environment"].keys() == values.keys()
        ports = {}
        for name in ("server1", "server2", "worker"):
            program, *words = services[name]["command"]
            assert program == "toolwire"
            ports[name] = find_free_port()
            own = {"0.0.0.0": "127.0.0.1", "9627": str(ports[name]), "172.16.0.0/12": "127.0.0.1"}
            words = [own.get(word, word) for word in words]
            argv = [sys.executable, "-m", "toolwire", *words]
            start(argv, values, None if name == "worker" else ports[name])
        port, certificate = find_free_port(), write_certificate(tmp_path, NAME)
        text = (FOLDER / "nginx.conf").read_text()
        text = re.sub(r"(server[12]):9627", lambda found: f"127.0.0.1:{ports[found[1]]}", text)
        text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
        text = text.replace("/etc/nginx/tls/cert.pem", str(certificate[0]))
        text = text.replace("/etc/nginx/tls/key.pem", str(certificate[1]))
        paths = "".join(
            f"{kind}_temp_path {tmp_path};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        text = text.replace("http {", f"http {{ access_log off; {paths}")
        file = tmp_path / "nginx.conf"
        file.write_text(f"daemon off; pid {tmp_path}/pid; error_log stderr;\n{text}")
        start([nginx, "-c", str(file), "-p", str(tmp_path)], {}, port)
        context = ssl.create_default_context(cafile=str(certificate[0]))

        def send(method: str, path: str, body: Any = None, **fields: str) -> tuple[int, dict[str, str], Any]:
            connection = HTTPSConnection(
                "127.0.0.1", port, timeout=PATIENCE_S, context=context, source_address=(CLIENT, 0)
            )
            connection._create_connection = socket.create_connection  # type: ignore[attr-defined]
            context.check_hostname = False
            head = {"host": NAME, "authorization": "Bearer key-of-ada", "content-type": "application/json", **fields}
            head["forwarded"] = "for=10.1.2.3"
            connection.request(method, path, None if body is None else json.dumps(body), head)
            answer = connection.getresponse()
            found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, json.load(answer)
            connection.close()
            return found

        status, fields, _ = send("POST", "/api/count", {"to": 2}, prefer="respond-async")
        assert status == 202
        path = "/calls/" + fields["location"].rpartition("/")[2]
        until = time.monotonic() + PATIENCE_S
        while (found := send("GET", path, None, prefer="wait=10")[2])["state"] != "ended":
            assert time.monotonic() < until, found
        assert found["result"] == 2
        assert send("GET", path, None, authorization="Bearer wrong")[0] == 401
        # FU-15: the servers know from the proxy alone who calls, whatever the client says.
        logs = [(tmp_path / f"{ports[name]}.log").read_text() for name in ("server1", "server2")]
        assert set(re.findall(r'"client_addr":"([^"]*)"', "".join(logs))) == {CLIENT}
    finally:
        redis.kill()


def test_proxy_of_the_compose_files_passes_on_what_the_page_says() -> None:
    sample, page = (
        re.findall(r"^ {4,}(?!server |listen |ssl_|server_name).*;$", text, re.MULTILINE)
        for text in ((FOLDER / "nginx.conf").read_text(), FILES["nginx.conf"])
    )
    assert sample == page


def test_the_image_is_built_from_the_wheel_and_runs_without_rights() -> None:
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    assert any(line.startswith("RUN pip wheel") for line in lines)
    assert "USER 10001" in lines
    for service in yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"].values():
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            assert source in ("postgres", "./tls") or (FOLDER / source).is_file()


def test_the_wheel_is_built_from_what_dockerignore_leaves(tmp_path: Path) -> None:
    root = FOLDER.parents[1]
    rules = [line for line in (root / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert rules[0] == "*", "without this rule, environments and caches of gigabytes are sent to the builder"
    for name in (rule[1:] for rule in rules if rule.startswith("!")):
        if (root / name).is_dir():
            shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            shutil.copy(root / name, tmp_path / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", "out"]
    subprocess.run([*build, "."], cwd=tmp_path, check=True, timeout=120)
    assert len(list((tmp_path / "out").glob("toolwire-*.whl"))) == 1
    copied = re.findall(r"^COPY (?!--from)(\S+) ", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    assert all((tmp_path / name).exists() for name in copied)


@pytest.mark.requirement("FU-59")
def test_each_image_has_all_extras_so_that_it_reads_every_kind_of_document() -> None:
    texts = [(FOLDER / "Dockerfile").read_text(), (FOLDER.parents[1] / "docs/how-to/deploy.md").read_text()]
    installed = [line for text in texts for line in text.splitlines() if "pip install" in line]
    assert len(installed) >= 2
    for line in installed:
        assert "[all]" in line, line
