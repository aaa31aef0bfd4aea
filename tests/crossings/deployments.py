"""Start each deployment of the matrix once, when the first row needs it: real processes, proxies and databases."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple, TypeAlias
from urllib.request import urlopen

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from tests.certificates import write_certificate
from tests.crossings.options import Flavour, choose_extras
from tests.crossings.people import NAME, PASSWORD, get_token, open_account
from tests.postgres import Postgres, run_postgres, wait_until_answering
from tests.programs import RedisServer, find_free_port
from tests.support.waiting import wait_until
from toolwire.auth.receipt import ReceiptKey

KIT = Path(__file__).with_name("kit.py")
ROOT = Path(__file__).parents[2]
KEY, GATEWAY_KEY = "key-of-ann-000000000000000000000000", "key-of-the-gateway-00000000000000000"
ISSUER, AUDIENCE = "https://issuer.example", "https://tools.example"
WAIT_S = 60.0
TOKEN_S = 300.0
"""For how long a token is used: half of its lifetime."""
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"  # where Debian puts proxies, and a user's PATH does not look


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A deployment that runs: where clients reach it, where its questions are, and what it has logged."""

    url: str
    state: Path | str
    logs: list[Path]
    command: list[str] = field(default_factory=list)
    is_gateway: bool = False
    token: str = ""
    """What a program got which a person who signed in here has allowed to call."""
    token_at: float = 0.0
    """When it got the token."""


class Deployments:
    """What runs for the rows of one test run, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._postgres: Postgres | None = None
        self._stack = ExitStack()
        self.receipt_key = ReceiptKey()
        self.ca_file, self.key_file = write_certificate(folder, "localhost", "127.0.0.1")
        self._signing_key = ECKey.generate_key("P-256")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._running: dict[tuple[str, Flavour], Running] = {}
        self._upstream: Running | None = None
        self._issuer: Issuer | None = None
        self._redis: RedisServer | None = None
        (folder / "keys.txt").write_text(f"{KEY} ann\n{GATEWAY_KEY} gateway\n")
        (folder / "receipts.json").write_text(json.dumps({"keys": [self.receipt_key.to_public_jwk()]}))
        public = self._signing_key.as_dict(private=False) | {"kid": "one", "alg": "ES256", "use": "sig"}
        (folder / "jwks.json").write_text(json.dumps({"keys": [public]}))
        vault = folder / "vault.key"
        vault.touch(mode=0o600)
        vault.write_text(secrets.token_hex(32))
        (folder / "both.pem").write_bytes(self.ca_file.read_bytes() + self.key_file.read_bytes())

    def sign_token(self, subject: str) -> str:
        """Return a token of the other issuer."""
        claims = {"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 3_600}
        return jwt.encode({"alg": "ES256", "kid": "one"}, claims, self._signing_key)

    def open(self, name: str, flavour: Flavour) -> Running:
        """Return the deployment with this name, which runs."""
        if (name, flavour) not in self._running:
            folder = Path(mkdtemp(prefix="deployment-", dir=self.folder))
            self._running[name, flavour] = STARTS[name](self, flavour, folder, self.find_extras(name, flavour, folder))
        running = self._running[name, flavour]
        if running.token and time.monotonic() - running.token_at > TOKEN_S:
            running = self._running[name, flavour] = renew_token(self, running)
        return running

    def find_extras(self, deployment: str, flavour: Flavour, folder: Path) -> dict[str, Any]:
        """Return further options of one server, with what they name opened."""
        return {name: self._fill(value, folder) for name, value in choose_extras(deployment, flavour).items()}

    def _fill(self, value: Any, folder: Path) -> Any:
        if value != "{redis}":
            return value.format(folder=folder) if isinstance(value, str) else value
        if self._redis is None:
            place = self.folder / "redis"
            place.mkdir()
            self._redis = RedisServer(place)
            self._stack.callback(self._redis.kill)
        return f"redis://127.0.0.1:{self._redis.port}"

    def open_issuer(self) -> Issuer:
        """Return our own authorization server, which runs, with a token of a program that has minutes left."""
        if self._issuer is not None and time.monotonic() - self._issuer.at > TOKEN_S:
            with httpx2.Client(timeout=WAIT_S) as browser:
                token = get_token(browser, self._issuer.url, AUDIENCE)
            self._issuer = self._issuer._replace(token=token, at=time.monotonic())
        if self._issuer is None:
            port = find_free_port()
            url, store = f"http://127.0.0.1:{port}", str(self.folder / "issuer.sqlite3")
            reply = json.dumps({"issuer": url, "resource": AUDIENCE, "store": store})
            argv = [sys.executable, "-m", "uvicorn", "tests.crossings.issuer:app", "--port", str(port)]
            metadata = "/.well-known/oauth-authorization-server"
            self.start([*argv, "--app-dir", str(ROOT)], port, self.folder, metadata, CROSSINGS_OPTIONS=reply)
            with httpx2.Client(timeout=WAIT_S) as browser:
                token = get_token(browser, url, AUDIENCE)
                keys = self.folder / "our-jwks.json"
                keys.write_bytes(browser.get(f"{url}/oauth/jwks").content)
            self._issuer = Issuer(url, keys, token, time.monotonic())
        return self._issuer

    def open_upstream(self) -> Running:
        """Return the server behind all gateways, which runs."""
        if self._upstream is None:
            folder = self.folder / "upstream"
            folder.mkdir()
            self._upstream = serve(self, folder, ["--api-key-file", str(self.folder / "keys.txt"), "--log", "json"])
        return self._upstream

    def create_database(self) -> str:
        """Return the URL of a new database of the one PostgreSQL of this run."""
        if self._postgres is None:
            self._postgres = self._stack.enter_context(run_postgres())
            wait_until_answering(self._postgres)
        return self._postgres.create_database()

    def list_running(self) -> list[Running]:
        """Return all that runs."""
        return [*self._running.values(), *([self._upstream] if self._upstream else [])]

    def build_environment(self) -> dict[str, str]:
        """Return the environment of what runs, and of the programs of other clients."""
        return {
            **os.environ,
            "CROSSINGS": str(self.folder),
            "UPSTREAM_KEY": GATEWAY_KEY,
            "TOOLWIRE_SETTINGS": "trust",
            "XDG_DATA_HOME": str(self.folder),
            "SSL_CERT_FILE": str(self.ca_file),
            "NODE_EXTRA_CA_CERTS": str(self.ca_file),
            "CURL_CA_BUNDLE": str(self.ca_file),
        }

    def start(self, argv: list[str], port: int, folder: Path, health: str = "/health", **environment: str) -> Path:
        """Start a program, wait until it answers at ``port``, and return the file of what it writes."""
        log = folder / f"{len(self._processes)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv, cwd=folder, env={**self.build_environment(), **environment}, stdout=output, stderr=output
            )
        self._processes.append(process)

        def is_well() -> bool:
            assert process.poll() is None, log.read_text()
            return any(answers(f"{scheme}://127.0.0.1:{port}{health}", self.ca_file) for scheme in ("http", "https"))

        wait_until(is_well, within=WAIT_S)
        return log

    def close(self) -> None:
        """End all of it: first what clients reach, and last what that needs."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(WAIT_S)
        self._stack.close()


class Issuer(NamedTuple):
    """Our own authorization server: its URL, its keys, and the token of a program that a person allowed."""

    url: str
    keys: Path
    token: str
    at: float
    """When the token was issued."""

    @property
    def principal(self) -> str:
        """What a server calls the person whose token this is."""
        payload = self.token.split(".")[1]
        return f"jwt:{json.loads(urlsafe_b64decode(payload + '=='))['sub']}"


def find_token_options(deployments: Deployments, flavour: Flavour) -> dict[str, str]:
    """Return the options that say which signed tokens are accepted."""
    if flavour.callers == "keys":
        keys, issuer = str(deployments.folder / "jwks.json"), ISSUER
    elif flavour.callers == "tokens":
        ours = deployments.open_issuer()
        keys, issuer = f"{ours.url}/oauth/jwks", ours.url
    else:
        return {}
    return {"jwks": keys, "jwt-issuer": issuer, "jwt-audience": AUDIENCE}


def answers(url: str, ca_file: Path) -> bool:
    """Return whether somebody at ``url`` says that all is well."""
    try:
        with urlopen(url, context=ssl.create_default_context(cafile=ca_file), timeout=5) as answer:
            return answer.status == 200
    except (OSError, HTTPException):
        return False


Extras: TypeAlias = dict[str, Any]
Start: TypeAlias = Callable[[Deployments, Flavour, Path, Extras], Running]


def list_options(deployments: Deployments, flavour: Flavour, extras: Extras) -> list[str]:
    """Return the options of ``toolwire serve`` that say who may call, and how users consent."""
    folder = deployments.folder
    options = ["--log", "json"]
    for name, value in extras.items():
        several = value if isinstance(value, list) else [value]
        options += [word for one in several for word in ([f"--{name}"] if one is True else [f"--{name}", str(one)])]
    if flavour.callers == "keys":
        options += ["--api-key-file", str(folder / "keys.txt")]
    for name, value in find_token_options(deployments, flavour).items():
        options += [f"--{name}", value]
    if flavour.wants_receipts:
        return [*options, "--receipts", "required", "--receipt-keys", str(folder / "receipts.json")]
    return [*options, "--consent", "inbox", "--ask-wait", "30"]


def serve(deployments: Deployments, folder: Path, options: list[str], state: Path | str = "") -> Running:
    """Start ``toolwire serve`` with the tools."""
    port, place = find_free_port(), state or folder / "state"
    command = [sys.executable, "-m", "toolwire", "serve", str(KIT), *options, "--port", str(port)]
    log = deployments.start([*command, "--state", str(place)], port, folder)
    return Running(url=f"http://127.0.0.1:{port}", state=place, logs=[log])


def serve_plainly(*more: str) -> Start:
    def begin(deployments: Deployments, flavour: Flavour, folder: Path, extras: Extras) -> Running:
        return serve(deployments, folder, [*list_options(deployments, flavour, extras), *more])

    return begin


def mount(deployments: Deployments, flavour: Flavour, folder: Path, extras: Extras) -> Running:
    """Start uvicorn with an application of FastAPI in which the tools are mounted."""
    port = find_free_port()
    tokens = find_token_options(deployments, flavour)
    reply = {
        "extras": extras,
        "state": str(folder / "state"),
        "key": KEY if flavour.callers == "keys" else "",
        "jwks": str(deployments.open_issuer().keys) if flavour.callers == "tokens" else tokens.get("jwks", ""),
        "issuer": tokens.get("jwt-issuer", ""),
        "audience": AUDIENCE,
        "receipts": str(deployments.folder / "receipts.json") if flavour.wants_receipts else "",
    }
    argv = [sys.executable, "-m", "uvicorn", "tests.crossings.mounted:app", "--port", str(port), "--app-dir", str(ROOT)]
    log = deployments.start(argv, port, folder, "/tools/health", CROSSINGS_OPTIONS=json.dumps(reply))
    return Running(url=f"http://127.0.0.1:{port}/tools/", state=folder / "state", logs=[log])


def start_stdio(deployments: Deployments, flavour: Flavour, folder: Path, extras: Extras) -> Running:
    """Return the command of a server that each client starts for itself."""
    state = folder / "state"
    words = [sys.executable, "-m", "toolwire", "serve", str(KIT), "--stdio", "--state", str(state)]
    return Running(url="", state=state, logs=[], command=[*words, *list_options(deployments, flavour, extras)])


NGINX = """\
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  {temporary}
  upstream toolwire {{ {servers} keepalive 32; }}
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {cert};
    ssl_certificate_key {key};
    location {path}/ {{
      proxy_pass http://toolwire/;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Connection "";
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_buffering off;
      proxy_read_timeout 120s;
    }}
  }}
}}
"""
CADDY = """\
{{
	admin off
}}
https://127.0.0.1:{port} {{
	tls {cert} {key}
	reverse_proxy {servers} {{
		flush_interval -1
	}}
}}
"""
HAPROXY = """\
defaults
    mode http
    timeout connect 5s
    timeout client 120s
    timeout server 120s

frontend tools
    bind 127.0.0.1:{port} ssl crt {both}
    http-request set-header X-Forwarded-Proto https
    option forwardfor
    default_backend toolwire

backend toolwire
    {servers}
"""


def find_program(name: str) -> str:
    """Return the path of a proxy; skip the row where it is not installed."""
    found = shutil.which(name, path=PATH)
    if found is None:
        pytest.skip(f"there is no {name}: `make test` installs it as root on Debian; or install the package {name}")
    return found


def start_proxy(
    deployments: Deployments, kind: str, port: int, behind: list[Running], folder: Path, path: str = ""
) -> str:
    """Start a proxy with TLS at ``port`` in front of servers; return the URL by which clients reach them."""
    addresses = [one.url.removeprefix("http://") for one in behind]
    texts = {
        "nginx": (NGINX, "".join(f"server {one};" for one in addresses)),
        "caddy": (CADDY, " ".join(addresses)),
        "haproxy": (HAPROXY, "\n    ".join(f"server s{number} {one}" for number, one in enumerate(addresses))),
    }
    text, servers = texts[kind]
    temporary = " ".join(
        f"{one}_temp_path {folder}/{one};" for one in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / kind
    file.write_text(
        text.format(
            folder=folder,
            temporary=temporary,
            servers=servers,
            port=port,
            path=path,
            cert=deployments.ca_file,
            key=deployments.key_file,
            both=deployments.folder / "both.pem",
        )
    )
    words = {
        "nginx": ["-p", str(folder), "-c", str(file)],
        "caddy": ["run", "--config", str(file), "--adapter", "caddyfile"],
        "haproxy": ["-f", str(file)],
    }
    deployments.start([find_program(kind), *words[kind]], port, folder, f"{path}/health")
    return f"https://127.0.0.1:{port}{path}"


def put_behind(kind: str, path: str = "") -> Start:
    """Return how a server behind a proxy is started, perhaps below a path."""

    def begin(deployments: Deployments, flavour: Flavour, folder: Path, extras: Extras) -> Running:
        find_program(kind)
        port = find_free_port()
        options = [*list_options(deployments, flavour, extras), "--trusted-proxies", "127.0.0.1"]
        options += ["--root-path", path] if path else []
        options += ["--receipt-audience", f"127.0.0.1:{port}"] if flavour.wants_receipts else []
        running = serve(deployments, folder, options)
        url = start_proxy(deployments, kind, port, [running], folder, path)
        return replace(running, url=f"{url}/" if path else url)

    return begin


def serve_on_postgres(deployments: Deployments, flavour: Flavour, folder: Path, extras: Extras) -> Running:
    """Start two servers with one PostgreSQL behind nginx, which gives each request to the next of them."""
    find_program("nginx")
    port, state = find_free_port(), deployments.create_database()
    options = [*list_options(deployments, flavour, extras), "--trusted-proxies", "127.0.0.1"]
    options += ["--receipt-audience", f"127.0.0.1:{port}"] if flavour.wants_receipts else []
    nodes = [serve(deployments, folder, options, state) for _ in range(2)]
    url = start_proxy(deployments, "nginx", port, nodes, folder)
    return Running(url=url, state=state, logs=[*nodes[0].logs, *nodes[1].logs])


GATEWAY = """\
port = {port}
public-url = "{public_url}"
state = "{state}"
log = "json"
{options}

[upstreams.crossings]
target = "{upstream}"
protocol = "mcp"
agree = true
{credentials}
"""


def run_gateway(
    deployments: Deployments, flavour: Flavour, folder: Path, extras: Extras, public_port: int = 0
) -> Running:
    """Start a gateway in front of the one upstream, behind a proxy at ``public_port`` if there is one."""
    upstream, port = deployments.open_upstream(), find_free_port()
    host = f"127.0.0.1:{public_port or port}"
    lines = ['trusted-proxies = ["127.0.0.1"]'] if public_port else []
    lines += [f"{name} = {json.dumps(value)}" for name, value in extras.items()]
    if flavour.callers == "keys":
        lines.append(f'api-key-file = "{deployments.folder}/keys.txt"')
    lines += [f'{name} = "{value}"' for name, value in find_token_options(deployments, flavour).items()]
    if flavour.wants_receipts:
        lines += ['receipts = "required"', f'receipt-keys = "{deployments.folder}/receipts.json"']
        lines += [f'receipt-audience = "{host}"']
    else:
        lines += ['consent = "inbox"', "ask-wait = 30"]
    if flavour.callers == "accounts":
        lines.append(f'key-file = "{deployments.folder}/vault.key"')
    if flavour.callers in ("people", "accounts"):
        lines += ["[sign-in]", 'name = "Crossings"']
    public_url = f"https://{host}" if public_port else f"http://{host}"
    state, file = folder / "state", folder / "toolwire.toml"
    file.write_text(
        GATEWAY.format(
            port=port,
            public_url=public_url,
            state=state,
            options="\n".join(lines),
            upstream=upstream.url,
            credentials='credentials = "caller"' if flavour.callers == "accounts" else 'key-env = "UPSTREAM_KEY"',
        )
    )
    if flavour.callers in ("people", "accounts"):
        add_person(deployments, folder)
    log = deployments.start([sys.executable, "-m", "toolwire", "gateway", "run"], port, folder)
    return Running(url=f"http://127.0.0.1:{port}", state=state, logs=[log], is_gateway=True)


def add_person(deployments: Deployments, folder: Path) -> None:
    """Add the account of a person to the gateway in ``folder``."""
    words = [sys.executable, "-m", "toolwire", "users", "add", NAME]
    environment = deployments.build_environment()
    subprocess.run(words, cwd=folder, env=environment, input=f"{PASSWORD}\n", text=True, check=True, timeout=WAIT_S)


def sign_in(deployments: Deployments, flavour: Flavour, running: Running) -> Running:
    """Return the gateway with the token of a program of the person who signs in there, if people do."""
    if flavour.callers not in ("people", "accounts"):
        return running
    if flavour.callers == "accounts":
        with open_browser(deployments) as browser:
            get_token(browser, running.url, running.url)
            open_account(browser, f"{running.url}/sign-in/crossings", KEY)
    return renew_token(deployments, running)


def renew_token(deployments: Deployments, running: Running) -> Running:
    """Return the gateway with a new token of a program of the person who signs in there."""
    with open_browser(deployments) as browser:
        token = get_token(browser, running.url, running.url)
    return replace(running, token=token, token_at=time.monotonic())


def open_browser(deployments: Deployments) -> httpx2.Client:
    return httpx2.Client(timeout=WAIT_S, verify=ssl.create_default_context(cafile=deployments.ca_file))


def start_gateway(deployments: Deployments, flavour: Flavour, folder: Path, extras: Extras) -> Running:
    return sign_in(deployments, flavour, run_gateway(deployments, flavour, folder, extras))


def put_gateway_behind_nginx(deployments: Deployments, flavour: Flavour, folder: Path, extras: Extras) -> Running:
    find_program("nginx")
    port = find_free_port()
    running = run_gateway(deployments, flavour, folder, extras, port)
    url = start_proxy(deployments, "nginx", port, [running], folder)
    return sign_in(deployments, flavour, replace(running, url=url))


STARTS: Mapping[str, Start] = {
    "one process": serve_plainly(),
    "two workers": serve_plainly("--workers", "2"),
    "mounted in FastAPI": mount,
    "stdio": start_stdio,
    "behind nginx": put_behind("nginx"),
    "behind Caddy": put_behind("caddy"),
    "behind HAProxy": put_behind("haproxy"),
    "below a path": put_behind("nginx", "/shop"),
    "behind our gateway": start_gateway,
    "gateway behind nginx": put_gateway_behind_nginx,
    "two nodes on PostgreSQL": serve_on_postgres,
}
