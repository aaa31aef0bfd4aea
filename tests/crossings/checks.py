"""What a user expects of each row of the matrix: the right result or refusal, asked once, run once, as themselves."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tests.crossings.clients import (
    MODERN,
    Call,
    Driver,
    Outcome,
    Target,
    call_curl,
    call_ours,
    read_long_call,
    start_driver,
)
from tests.crossings.covering import Row
from tests.crossings.deployments import KEY, Deployments, Running
from tests.crossings.kit import DATA, ITEMS
from tests.crossings.options import find_flavour
from toolwire.core.check import Answer
from toolwire.stores.consent.open import open_approvals

PAUSE_S = 0.05
MAX_QUESTIONS = 10
"""How many questions one caller can add to one inbox in a minute."""


class Bench:
    """The deployments and the clients of one test run."""

    def __init__(self, deployments: Deployments) -> None:
        self.deployments = deployments
        self._drivers: dict[str, Driver] = {}
        self._questions: dict[tuple[str, str], int] = {}

    def call(self, client: str, target: Target, call: Call) -> Outcome:
        if client == "ours":
            return call_ours(target, call, self.deployments.receipt_key)
        if client == "curl":
            return call_curl(target, call)
        outcome = self.open_driver(client).call(target, call)
        # A client without tasks is told the id of a call that takes longer than it is waited for.
        if target.url and (late := re.search(r'with the handle "([0-9a-f]{40})"', str(outcome.value))):
            read_long_call(outcome, target, late[1])
        return outcome

    def open_driver(self, client: str) -> Driver:
        """Return the client of another maker, which is started once."""
        if client not in self._drivers:
            self._drivers[client] = start_driver(client, self.deployments.build_environment())
        return self._drivers[client]

    def count_question(self, row: Row) -> int:
        """Return how many rows before this one can have added a question of this caller to the inbox."""
        who = (row["deployment"], row["caller"])
        self._questions[who] = self._questions.get(who, -1) + 1
        return self._questions[who]

    def close(self) -> None:
        for driver in self._drivers.values():
            driver.close()
        self.deployments.close()


def is_about_earlier_calls(question: str) -> bool:
    """Return whether a user is asked only because an earlier row of the same caller at a gateway read something."""
    return "can send data out" in question


@contextmanager
def answer_inbox(running: Running, row: str) -> Iterator[list[str]]:
    """Allow every question that comes into the inbox; yield those that were about ``row``."""
    answered: list[str] = []
    end = threading.Event()

    def work() -> None:
        approvals = open_approvals(running.state)
        while not end.wait(PAUSE_S):
            for question in approvals.list_pending():
                texts = [each.text for each in question.rows]
                about = any(row in text for text in texts)
                if approvals.answer(question.id, Answer(allowed=True)) and about:
                    answered.append(" ".join(texts))
        approvals.close()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield answered
    finally:
        end.set()
        worker.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the user of a row sees."""

    value: Any
    refusal: str = ""
    """What the refusal has to contain, empty for a value."""
    consented: int = 0
    in_inbox: int = 0
    entered: int = 0


def expect(row: Row, running: Running) -> Expected:
    """Return what the user of ``row`` has to see, by what the documentation says."""
    is_mcp = row["protocol"].startswith("MCP")
    client, consent, kind = row["client"], row["consent"], row["kind"]
    asks = consent != "auto" or kind == "destructive"
    shows_forms = client != "curl" and consent != "inbox"
    can_ask = is_mcp and shows_forms
    values = {
        "read": "read {row}",
        "write": "wrote {row}",
        "destructive": "deleted {row}",
        "long": "built {row}",
        "streaming": ITEMS,
        "file": DATA,
        "requirements": "sealed with 13 characters",
        "question": "sewed 4" if can_ask else "nothing: cannot_ask",
    }
    value = values[kind]
    if client != "ours" and consent == "receipt":
        return Expected(value=None, refusal="receipt")
    in_inbox = int(asks and (consent == "inbox" or (client == "curl" and is_mcp)))
    if client == "ours":
        consented = int(asks)
    elif client == "curl":
        consented = int(asks and not is_mcp and not in_inbox and running.is_gateway)
    else:
        consented = int(asks and not in_inbox)
    return Expected(
        value=value,
        consented=consented,
        in_inbox=in_inbox,
        entered=int(kind == "question" and can_ask),
    )


def identify(caller: str, running: Running, deployments: Deployments) -> tuple[str, str]:
    """Return the token of a caller, empty for none, and what the server of the tools calls who called."""
    if caller == "own account at the upstream":
        return running.token, "key:ann"
    tokens = {
        "anonymous": lambda: ("", "anonymous"),
        "key": lambda: (KEY, "key:ann"),
        "JWT": lambda: (deployments.sign_token("bob"), "jwt:bob"),
        "our OAuth": lambda: (deployments.open_issuer().token, deployments.open_issuer().principal),
        "user at the gateway": lambda: (running.token, ""),
    }
    token, principal = tokens[caller]()
    return token, "key:gateway" if running.is_gateway else principal


def find_decisions(running: Running) -> set[tuple[str, str]]:
    """Return who was allowed which tool, as the log of the servers says; the names of people without their digests."""
    found = set()
    for log in running.logs:
        for line in log.read_text().splitlines():
            if '"logger":"toolwire.decisions"' in line:
                data = json.loads(line)
                if data["decision"] == "allowed":
                    tool = data["tool"].partition(".")[2].partition("@")[0]
                    found.add((re.sub(r"(user:\w+):.*", r"\1", data["principal"]), tool))
    return found


def name_caller(caller: str, deployments: Deployments) -> str:
    """Return what the server that a client calls has to call the caller."""
    names = {"anonymous": "anonymous", "key": "key:ann", "JWT": "jwt:bob"}
    if caller == "our OAuth":
        return deployments.open_issuer().principal
    return names.get(caller, "user:ann")


def check_row(row: Row, bench: Bench) -> None:
    """Make the call of ``row``, and check what its user and the server have of it."""
    deployments = bench.deployments
    name = sha256(json.dumps(row).encode()).hexdigest()[:12]
    flavour = find_flavour(row, bench.count_question(row) // MAX_QUESTIONS)
    running = deployments.open(row["deployment"], flavour)
    token, principal = identify(row["caller"], running, deployments)
    target = Target(
        url=running.url,
        command=running.command,
        ca_file=deployments.ca_file,
        token=token,
        folder=deployments.folder,
        environment=deployments.build_environment(),
    )
    call = Call(
        tool=row["kind"] if row["consent"] == "auto" else f"{row['kind']}_asked",
        row=name,
        protocol=row["protocol"],
        consent=row["consent"],
        kind=row["kind"],
    )
    with answer_inbox(running, name) as in_inbox:
        outcome = bench.call(row["client"], target, call)
    file = deployments.folder / f"{name}.runs"
    runs = [json.loads(line)["principal"] for line in file.read_text().splitlines()] if file.exists() else []
    expected = expect(row, running)
    text = f"{outcome}\ninbox: {in_inbox}\nruns: {runs}"
    value = expected.value.format(row=name) if isinstance(expected.value, str) else expected.value
    if expected.refusal:
        assert expected.refusal in outcome.refusal, text
    else:
        assert (outcome.refusal, outcome.value) == ("", value), text
    ran = not expected.refusal and value != "nothing: cannot_ask"
    assert runs == [principal] * ran, text
    consented, asked_in_inbox = outcome.consented, in_inbox
    own = [one for one in consented if not is_about_earlier_calls(one)]
    consented = own if len(own) >= expected.consented else consented  # one question can have both reasons
    own = [one for one in in_inbox if not is_about_earlier_calls(one)]
    asked_in_inbox = own if len(own) >= expected.in_inbox else in_inbox
    assert len(consented) == expected.consented, text
    assert len(asked_in_inbox) == expected.in_inbox, text
    assert len(outcome.entered) == expected.entered, text
    if call.is_watched and not expected.refusal:
        # a client may say something of its own first, such as that it asks its user
        assert len(outcome.items) >= len(ITEMS), text
    is_decided = bool(in_inbox) or (running.is_gateway and bool(outcome.consented) and row["consent"] != "receipt")
    if ran and is_decided and row["deployment"] not in ("mounted in FastAPI", "stdio"):  # whose logs are elsewhere
        assert (name_caller(row["caller"], deployments), call.tool) in find_decisions(running), text
    if outcome.version:
        assert outcome.version == (MODERN if row["protocol"] == MODERN else row["protocol"]).removeprefix("MCP "), text
