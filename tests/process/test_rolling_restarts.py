"""Two gateways behind each proxy of its page are restarted in turn: no call of any client is lost or refused."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.programs import find_free_port
from tests.support.proxies import NAME, PROXIES, WAIT_S, resolve_name, run_proxy, run_server, trust_certificate
from tests.support.proxies import wait_until_healthy as wait_for_proxy
from tests.support.waiting import wait_until

from .amounts import LONG

CALLS = 20_000 if LONG else 0
RESTARTS = 20 if LONG else 2
CLIENTS = 10 if LONG else 2
PAUSE_S = 0.0 if LONG else 0.02
ROUNDS = [[proxy] for proxy in PROXIES] if LONG else [list(PROXIES)]
FILE = """
port = {port}
allow-host = ["{name}"]
trusted-proxies = ["127.0.0.1"]
workers = {workers}

[upstreams.desk]
target = "desk.py"
"""
DESK = '''
import asyncio
import os

from toolwire import Toolkit

desk = Toolkit("Desk")


@desk.tool(safe=True, approval="auto")
async def tell_process(seconds: float) -> int:
    """Wait, and say which process ran the call."""
    await asyncio.sleep(seconds)
    return os.getpid()
'''
TWO_SERVERS = {
    "nginx": ("    server 127.0.0.1:{one} max_fails=0;\n", "    server 127.0.0.1:{two} max_fails=0;\n"),
    "caddy": ("reverse_proxy 127.0.0.1:{one}", " 127.0.0.1:{two}"),
    "haproxy": ("    server one 127.0.0.1:{one}\n", "    server two 127.0.0.1:{two}\n"),
}
"""What the page adds to each configuration for a second server, and behind what."""


class Clients:
    """Clients of one proxy, each with a connection of its own, and what became of their calls."""

    def __init__(self, port: int, folder: Path) -> None:
        self._url = f"https://{NAME}:{port}/call"
        self._trust = trust_certificate(folder)
        self._ends = threading.Event()
        self.answers: Counter[str] = Counter()
        self.processes: set[int] = set()
        self._threads = [threading.Thread(target=self._call_often) for _ in range(CLIENTS)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join(WAIT_S)

    def _call_often(self) -> None:
        number = 0
        with httpx2.Client(verify=self._trust, timeout=WAIT_S) as client:
            while not self._ends.is_set():
                number += 1
                # one call in ten still runs while its server stops
                body = {
                    "request": {"tool_id": "tell_process", "input": {"seconds": 0.5 if number % 10 == 0 else PAUSE_S}}
                }
                try:
                    answer = client.post(self._url, json=body)
                    text = str(answer.status_code)
                    if answer.status_code == 200:
                        self.processes.add(answer.json()["output"]["value"])
                    else:
                        text += answer.text[:200]
                except httpx2.HTTPError as error:
                    text = repr(error)
                self.answers[text] += 1


@contextmanager
def run_gateway(folder: Path, port: int) -> Iterator[None]:
    with run_server([sys.executable, "-m", "toolwire", "gateway", "run"], port, folder) as process:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0, (folder / f"printed-{port}.txt").read_text()


@pytest.mark.requirement("CR-03")
@pytest.mark.parametrize("proxies", ROUNDS, ids=" ".join)
def test_no_call_is_lost_while_gateways_are_restarted(
    proxies: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_name(monkeypatch)
    ports = find_free_port(), find_free_port()
    folders = [tmp_path / str(port) for port in ports]
    for number, (folder, port) in enumerate(zip(folders, ports, strict=True)):
        folder.mkdir()
        (folder / "desk.py").write_text(DESK)
        (folder / "toolwire.toml").write_text(FILE.format(port=port, name=NAME, workers=1 + number))

    def add_second(proxy: str, text: str) -> str:
        before, added = (one.format(one=ports[0], two=ports[1]) for one in TWO_SERVERS[proxy])
        assert before in text
        return text.replace(before, before + added)

    running = [ExitStack(), ExitStack()]
    with ExitStack() as ending:
        for number, one in enumerate(running):
            ending.callback(one.close)
            one.enter_context(run_gateway(folders[number], ports[number]))
        clients = []
        for proxy in proxies:
            (folder := tmp_path / proxy).mkdir()
            change = lambda text, proxy=proxy: add_second(proxy, text)  # noqa: E731 - it is one argument
            front = ending.enter_context(run_proxy(proxy, folder, ports[0], change=change))
            wait_for_proxy(front, folder)
            clients.append(ending.enter_context(Clients(front, folder)))
        for number in range(RESTARTS):
            one = running[number % 2]
            one.close()
            before = [set(each.processes) for each in clients]
            one.enter_context(run_gateway(folders[number % 2], ports[number % 2]))
            # the next restart begins once each proxy passes calls on to the new process
            for each, known in zip(clients, before, strict=True):
                wait_until(lambda each=each, known=known: each.processes - known)  # type: ignore[misc]
        for each in clients:
            wait_until(lambda each=each: sum(each.answers.values()) >= CALLS, within=600)  # type: ignore[misc]
    found = {proxy: dict(each.answers) for proxy, each in zip(proxies, clients, strict=True)}
    print(json.dumps({"restarts": RESTARTS, "clients": CLIENTS, "answers": found}))
    assert all(list(answers) == ["200"] for answers in found.values()), found
