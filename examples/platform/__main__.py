"""Run the platform: ``python -m examples.platform``, or ``make demo PLATFORM=1``. It ends with 0 if all went well.

This folder has no ``__init__.py``: a program in ``examples/`` would import it instead of Python's own ``platform``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import httpx2

from toolwire import connect_sync

HERE = Path(__file__).parent
WAIT_S = 60.0
WAITS = 428
"""The status of a call that waits for its user."""
SEEN = {
    "ann": ["count", "list_meetings", "read_note", "tell_process", "tell_weather"],
    "bob": ["count", "list_meetings", "order", "publish", "read_note", "tell_process", "tell_weather"],
    "night-agent": ["publish", "tell_process"],
    "olga": ["count", "list_meetings", "order", "publish", "read_note", "tell_process", "tell_weather"],
    "eve": [],
}
"""The tools that each of the five callers may use. Nobody sees those of the upstream that is down."""
KEYS = {name: f"key-of-{name}" for name in SEEN}
T = TypeVar("T")


class UnexpectedError(Exception):
    """A step that did not come out as it should; the text says which, and what came instead."""


def check(step: str, found: T, wanted: T) -> None:
    """Print ``step``.

    Raises:
        UnexpectedError: what was found is not what was wanted.
    """
    if found != wanted:
        raise UnexpectedError(f"{step}: {found!r} instead of {wanted!r}")
    print(f"  {step}", flush=True)


def wait_for(what: str, condition: Callable[[], T]) -> T:
    """Return the first result of ``condition`` that is true.

    Raises:
        UnexpectedError: there was none within a minute.
    """
    end = time.monotonic() + WAIT_S
    while not (result := condition()):
        if time.monotonic() > end:
            raise UnexpectedError(f"{what} did not happen within {WAIT_S:g} seconds")
        time.sleep(0.05)
    return result


def find_ports(count: int) -> list[int]:
    """Return free ports of this machine."""
    with ExitStack() as opened:
        found = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in found]


class Node:
    """One gateway, in a folder of its own."""

    def __init__(self, folder: Path, text: str, port: int) -> None:
        self.folder, self.url = folder, f"http://127.0.0.1:{port}"
        folder.mkdir()
        for name in ("desk.py", "notes.py", "weather.json"):
            source = folder.parent / name
            shutil.copy(source if source.exists() else HERE / name, folder / name)
        (folder / "toolwire.toml").write_text(text, encoding="utf-8")
        self.write_keys(KEYS)
        self.process: subprocess.Popen[bytes] | None = None

    def write_keys(self, keys: dict[str, str]) -> None:
        """Write the file of the callers' keys, and have a running gateway read it."""
        text = "".join(f"{key} {name}\n" for name, key in keys.items())
        (self.folder / "keys.txt").write_text(text, encoding="utf-8")

    def start(self) -> None:
        """Start the gateway, and wait until it answers."""
        with (self.folder / "log.txt").open("ab") as log:
            self.process = start_program(["gateway", "run"], self.folder, log)
        wait_for(f"the start of {self.url}", self._answers)

    def reload(self) -> None:
        """Have the gateway read its file and its keys again."""
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """End the gateway; running calls finish."""
        if self.process is not None:
            self.process.terminate()
            check(f"{self.url} has stopped", self.process.wait(WAIT_S), 0)
            self.process = None

    def end(self) -> None:
        """End the gateway, whatever state it is in."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(WAIT_S)

    def agree(self, upstream: str) -> None:
        """Agree to the program of ``upstream``, as its operator does once."""
        run_command("gateway", "agree", upstream, folder=self.folder)

    def list_tools(self, caller: str) -> list[str]:
        """Return the names of the tools that ``caller`` sees."""
        with connect_sync(self.url, api_key=KEYS[caller], protocol="otc", agree=bool) as remote:
            return sorted(tool.name for tool in remote.tools)

    def call(self, caller: str, tool: str, key: str = "", call_id: str = "", **arguments: Any) -> httpx2.Response:
        """Call ``tool`` once, by Open Tool Calling."""
        request = {"tool_id": tool, "input": arguments, **({"call_id": call_id} if call_id else {})}
        headers = {"authorization": f"Bearer {key or KEYS[caller]}", "prefer": "wait=0"}
        return httpx2.post(f"{self.url}/call", json={"request": request}, headers=headers, timeout=WAIT_S)

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise UnexpectedError((self.folder / "log.txt").read_text(encoding="utf-8"))
        try:
            return httpx2.get(f"{self.url}/health", timeout=WAIT_S).status_code == 200
        except httpx2.HTTPError:
            return False


def read_value(answer: httpx2.Response) -> Any:
    """Return the result of a call.

    Raises:
        UnexpectedError: it has none.
    """
    try:
        return answer.json()["output"]["value"]
    except (ValueError, KeyError) as error:
        raise UnexpectedError(f"a call was answered with {answer.status_code}: {answer.text[:300]}") from error


def start_program(words: Sequence[str], folder: Path, log: Any, **environment: str) -> subprocess.Popen[bytes]:
    """Start ``toolwire`` with ``words``."""
    known = {**os.environ, "STOCK_KEY": "key-of-the-platform", "TOOLWIRE_SETTINGS": "trust", **environment}
    command = [sys.executable, "-m", "toolwire", *words]
    return subprocess.Popen(command, cwd=folder, env=known, stdout=log, stderr=log)  # noqa: S603 - our own command


@contextmanager
def serve_upstreams(folder: Path) -> Iterator[dict[str, str]]:
    """Serve the three upstreams that have addresses, and give the URLs."""
    names = ("stock", "meetings", "weather")
    ports = dict(zip(names, find_ports(len(names)), strict=True))
    with ExitStack() as ending, (folder / "upstreams.txt").open("wb") as log:
        for name, port in ports.items():
            shutil.copy(HERE / f"{name}.py", folder)
            keys = {"TOOLWIRE_API_KEYS": "key-of-the-platform"} if name == "stock" else {}
            process = start_program(["serve", f"{name}.py", "--port", str(port)], folder, log, **keys)
            ending.callback(process.wait, WAIT_S)
            ending.callback(process.terminate)
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        for url in urls.values():
            wait_for(f"the start of {url}", lambda url=url: _is_up(url))  # type: ignore[misc]
        document = httpx2.get(f"{urls['weather']}/openapi.json", timeout=WAIT_S).json()
        document.pop("servers", None)
        (folder / "weather.json").write_text(json.dumps(document), encoding="utf-8")
        yield urls


def _is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health", timeout=WAIT_S).status_code == 200
    except httpx2.HTTPError:
        return False


def allow_question(node: Node, caller: str, title: str) -> None:
    """Sign in at the inbox as ``caller``, and allow the question about ``title``."""
    own = {"origin": node.url, "sec-fetch-site": "same-origin"}
    with httpx2.Client(timeout=WAIT_S) as browser:
        browser.post(f"{node.url}/inbox/sign-in", data={"key": KEYS[caller], "next": "/"}, headers=own)
        articles = browser.get(f"{node.url}/inbox/").text.split("<article")[1:]
        about = [one for one in articles if title in one]
        check(f"{caller}'s inbox at {node.url} has the question", len(about), 1)
        form = dict(re.findall(r'name="(token|id)" value="([^"]*)"', about[0]))
        done = browser.post(f"{node.url}/inbox/", data={**form, "answer": "allow"}, headers=own)
        check("the answer is taken", done.status_code, 303)


def show_rights(nodes: Sequence[Node]) -> None:
    """Each caller sees the same at both nodes, and the upstream that is down takes nothing else with it."""
    print("Five callers, six upstreams of which one is down")
    for caller, wanted in SEEN.items():
        for node in nodes:
            check(f"{caller} sees {len(wanted)} tools at {node.url}", node.list_tools(caller), wanted)
    for caller, tool, arguments, wanted in (
        ("ann", "count", {"item": "tea"}, 3),
        ("ann", "list_meetings", {"day": "Monday"}, ["Monday 10:00 Planning"]),
        ("ann", "read_note", {"name": "Monday"}, "Monday: buy tea"),
        ("ann", "tell_weather", {"city": "Oslo"}, "It rains in Oslo."),
    ):
        found = read_value(nodes[0].call(caller, tool, **arguments))
        check(f"{caller} calls {tool}", found, wanted)
    refused = nodes[0].call("ann", "order", item="tea")
    check("ann may not order", (refused.status_code, "ordered" in refused.text), (400, False))
    key = {"authorization": f"Bearer {KEYS['olga']}"}
    health = httpx2.get(f"{nodes[0].url}/health?full", headers=key, timeout=WAIT_S).json()
    down = [one["name"] for one in health["upstreams"] if one["state"] != "ok"]
    check("the health of the gateway names the upstream that is down", (health["status"], down), ("DEGRADED", ["gone"]))


def ask_at_another_node(first: Node, second: Node) -> None:
    """A call that waits at one node is allowed at the other, and one yes is one call."""
    print("A question of one node is answered at the other")
    waiting = first.call("night-agent", "publish", title="News")
    check("the call waits for consent", (waiting.status_code, "/inbox" in waiting.text), (WAITS, True))
    allow_question(second, "ann", "News")
    said = read_value(first.call("night-agent", "publish", title="News"))
    check("the call runs", said, "News is published")
    check("the next one asks again", first.call("night-agent", "publish", title="News").status_code, WAITS)


def rotate_key(nodes: Sequence[Node]) -> None:
    """A key is replaced while a call with it runs: the call ends well, and the old key is refused."""
    print("A key is rotated while a call runs")
    known = [list_processes(node) for node in nodes]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(nodes[0].call, "ann", "tell_process", seconds=2)
        old, KEYS["ann"] = KEYS["ann"], "new-key-of-ann"
        for node, before in zip(nodes, known, strict=True):
            node.write_keys(KEYS)
            node.reload()
            # processes are replaced one after the other
            wait_for("the reload", lambda node=node, before=before: not list_processes(node) & before)  # type: ignore[misc]
            check(f"the new key is known at {node.url}", node.call("ann", "count", item="tea").status_code, 200)
            check("the old one is not", node.call("ann", "count", key=old, item="tea").status_code, 401)
        check("the call that ran meanwhile ended well", running.result().status_code, 200)


def list_processes(node: Node) -> set[int]:
    """Return the processes that answer at ``node``."""
    return {read_value(node.call("olga", "tell_process")) for _ in range(12)}


def kill_worker(node: Node, orders: Path) -> None:
    """A worker dies in the middle of calls: they are repeated with the same id, and each order is placed once."""
    print("A worker is killed")
    worker = read_value(node.call("ann", "tell_process"))
    with ThreadPoolExecutor(4) as pool:

        def order(number: int) -> bool:
            try:
                return node.call("bob", "order", call_id=f"order-{number}", item=f"item-{number}").status_code == 200
            except httpx2.HTTPError:
                return False

        def order_until_done(number: int) -> None:
            wait_for(f"order {number}", lambda: order(number))

        placing = [pool.submit(order_until_done, number) for number in range(20)]
        os.kill(worker, signal.SIGKILL)
        for one in placing:
            one.result()
    placed = sorted(orders.read_text(encoding="utf-8").split())
    check("20 orders are placed, each once", placed, sorted(f"item-{number}" for number in range(20)))


def back_up_and_restore(nodes: Sequence[Node], restored: str, orders: Path) -> None:
    """The state is copied while both nodes run, and restored; what was recorded is known, and old answers are void."""
    print("The state is backed up, and restored")
    file = nodes[0].folder.parent / "platform.backup"
    first = nodes[0]
    waiting = first.call("night-agent", "publish", title="Later")
    check("a call waits for consent", waiting.status_code, WAITS)
    allow_question(nodes[1], "ann", "Later")
    text = (first.folder / "toolwire.toml").read_text(encoding="utf-8")
    place = re.findall(r'^state = "(.*)"$', text, re.MULTILINE)[0]
    run_command("state", "backup", str(file), "--state", place)
    for node in nodes:
        node.stop()
    run_command("state", "restore", str(file), "--state", restored)
    (first.folder / "toolwire.toml").write_text(text.replace(f'"{place}"', f'"{restored}"'), encoding="utf-8")
    first.start()
    again = first.call("bob", "order", call_id="order-1", item="item-1")
    check("an order that is repeated has its recorded result", again.status_code, 200)
    check("it was not placed again", len(orders.read_text(encoding="utf-8").split()), 20)
    check("an answer from before is void", first.call("night-agent", "publish", title="Later").status_code, WAITS)


def run_command(*words: str, folder: Path | None = None) -> None:
    """Run a command of ``toolwire`` to its end."""
    command, known = [sys.executable, "-m", "toolwire", *words], {**os.environ, "TOOLWIRE_SETTINGS": "trust"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=known)  # noqa: S603 - our own
    found = (done.returncode, done.stderr if done.returncode else "")
    check(f"toolwire {words[0]} {words[1]} succeeds", found, (0, ""))


def run(state: str, restored: str) -> None:
    """Run each step.

    Raises:
        UnexpectedError: one did not come out as it should.
    """
    with TemporaryDirectory() as name, ExitStack() as ending:
        folder = Path(name)
        urls = ending.enter_context(serve_upstreams(folder))
        (gone, *ports) = find_ports(3)
        template = (HERE / "toolwire.toml").read_text(encoding="utf-8")
        nodes = []
        for number, port in enumerate(ports, 1):
            words = {
                **urls,
                "port": port,
                "url": f"http://127.0.0.1:{port}",
                "state": state or folder / "state",
                "workers": number,
                "gone": f"http://127.0.0.1:{gone}",
                "python": sys.executable,
            }
            text = re.sub(r"\{(\w+)\}", lambda match, words=words: str(words[match[1]]), template)  # type: ignore[misc]
            nodes.append(Node(folder / f"node{number}", text, port))
        for node in nodes:
            ending.callback(node.end)
            node.agree("notes")
            node.start()
        show_rights(nodes)
        ask_at_another_node(*nodes)
        rotate_key(nodes)
        kill_worker(nodes[1], folder / "orders.txt")
        back_up_and_restore(nodes, restored or str(folder / "restored"), folder / "orders.txt")


def main() -> int:
    """Run the platform; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.platform", description="A platform of two gateways.")
    parser.add_argument("--state", default="", help="postgresql://HOST/DATABASE, an empty one (a folder)")
    parser.add_argument("--restored", default="", help="another empty database, to restore the backup to")
    given = parser.parse_args()
    try:
        run(given.state, given.restored)
    except UnexpectedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("Everything came out as it should.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
