"""Call a tool with each client of the matrix, and say in one form what its user got and was asked."""

from __future__ import annotations

import json
import subprocess
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join
from typing import Any

from tests.crossings.kit import SECRET
from tests.interop.mcp_makers import CACHE, start_node
from tests.support.waiting import wait_until
from toolwire import Context, File, InputRequest, Problem, Progress, Question, Secret, Session, Value, connect_sync
from toolwire.auth.receipt import ReceiptKey

PROTOCOLS = {"OpenAPI": "openapi", "OpenTool": "opentool", "OTC": "otc"}
MODERN = "MCP 2026-07-28"
SEAL = "a seal of Ann"
DRIVERS = Path(__file__).with_name("drivers")
META = "io.modelcontextprotocol/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a tool is called, and as whom."""

    url: str
    command: list[str]
    ca_file: Path
    token: str
    folder: Path
    environment: dict[str, str]

    @property
    def base(self) -> str:
        return self.url.rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is called in a row: by which protocol, and how its user consents."""

    tool: str
    row: str
    protocol: str
    consent: str
    kind: str

    @property
    def arguments(self) -> dict[str, Any]:
        return {"row": self.row, **({"watched": True} if self.is_watched else {})}

    @property
    def is_watched(self) -> bool:
        """Whether each item of the stream is sent only after the one before has arrived."""
        return self.kind == "streaming" and self.protocol not in ("OpenAPI", "OTC")


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of a call for its user."""

    value: Any = None
    refusal: str = ""
    version: str = ""
    consented: list[str] = field(default_factory=list)
    """The questions for consent that the user answered in the client."""
    entered: list[str] = field(default_factory=list)
    """What tools asked."""
    items: list[Any] = field(default_factory=list)
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What a result of MCP says beside its content."""


def take_item(outcome: Outcome, call: Call, target: Target, item: Any) -> None:
    """Note an item of a stream, and let the tool send the next one."""
    outcome.items.append(item)
    (target.folder / f"{call.row}.{len(outcome.items)}").touch()


def read_value(value: Any) -> Any:
    """Return what a tool returned: the bytes of a file, in either of its forms."""
    if isinstance(value, File):
        return value.data
    if isinstance(value, dict) and value.get("type") == "file":
        return urlsafe_b64decode(value["data"])
    return value


def call_ours(target: Target, call: Call, receipt_key: ReceiptKey) -> Outcome:
    """Call with our own client, whose user allows every question."""
    outcome = Outcome()

    def approve(question: Question) -> bool:
        outcome.consented.append(f"{question.call.tool.name} {' '.join(question.reasons)}")
        return True

    def enter(asked: InputRequest) -> Mapping[str, object]:
        outcome.entered.append(asked.message)
        return {"size": 4}

    def notify(progress: Progress) -> None:
        if call.is_watched:
            take_item(outcome, call, target, progress.value)

    variables = [f"CROSSINGS={target.folder}"] if target.command else []
    with connect_sync(
        f"stdio:{join([*variables, *target.command])}" if target.command else target.url,
        protocol=PROTOCOLS.get(call.protocol, "mcp") if not target.command else None,
        api_key=target.token or None,
        ca_file=target.ca_file,
        session=Session(receipt_key=(lambda: receipt_key) if call.consent == "receipt" else None),
        approve=approve,
        agree=lambda tools: True,
        approve_command=lambda command: True,
        provide_input=None if call.consent == "inbox" else enter,
        context=Context(secrets={SECRET: Secret(SEAL)}),
        headers={"prefer": "wait=30"} if call.consent == "inbox" and not target.command else {},
    ) as remote:
        if call.kind == "long":
            started = remote.start(call.tool, call.arguments)
            result = started if isinstance(started, (Problem, Value)) else started.result(timeout_s=30)
        else:
            result = remote.call(call.tool, call.arguments, notify=notify)
    if isinstance(result, Problem):
        outcome.refusal = result.message
    else:
        outcome.value = read_value(result.value)
    return outcome


def choose_mode(target: Target, call: Call) -> str:
    """Return how a client of two revisions comes to that of the row.

    One that probes a program takes it for an older one if its start takes long, as on a loaded machine.
    """
    if call.protocol != MODERN:
        return "legacy"
    return MODERN.removeprefix("MCP ") if target.command else "auto"


class Driver:
    """A client of another maker in a process of its own, which makes one call after the other."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def call(self, target: Target, call: Call, path: str = "/mcp") -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {
            "url": f"{target.base}{path}",
            "command": target.command,
            "env": target.environment if target.command else None,
            "fields": {"authorization": f"Bearer {target.token}"} if target.token else {},
            "mode": choose_mode(target, call),
            "forms": call.consent != "inbox",
            "tool": call.tool,
            "arguments": call.arguments,
            "meta": {"toolwire/context": {"secrets": {SECRET: SEAL}}} if call.kind == "requirements" else {},
            "taken": f"{target.folder / call.row}" if call.is_watched else "",
        }
        self._process.stdin.write(f"{json.dumps(asked)}\n")
        self._process.stdin.flush()
        data = json.loads(self._process.stdout.readline())
        outcome = Outcome(
            version=data.get("version", ""),
            consented=data["consented"],
            entered=data["entered"],
            items=data["items"],
            refusal=data.get("error", ""),
        )
        if result := data.get("result"):
            read_mcp_result(outcome, result)
        return outcome

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def read_mcp_result(outcome: Outcome, result: Mapping[str, Any]) -> None:
    """Take the result of MCP, as a client without knowledge of us sees it."""
    content, outcome.meta = result["content"], result.get("_meta") or {}
    if result.get("isError"):
        outcome.refusal = content[0]["text"]
    elif content and content[0]["type"] == "resource":
        outcome.value = urlsafe_b64decode(content[0]["resource"]["blob"].replace("+", "-").replace("/", "_"))
    elif result.get("structuredContent"):
        structured = result["structuredContent"]
        outcome.value = read_value(structured.get("result", structured))
    else:
        outcome.value = content[0]["text"]


MAKERS = {
    "Python SDK 1.x": ("sdk-1", "python_sdk_1"),
    "Python SDK 2.x": ("sdk-2", ""),
    "FastMCP": ("fastmcp", "fastmcp"),
}


def start_driver(client: str, environment: dict[str, str]) -> Driver:
    """Start the client of another maker."""
    from tests.interop.mcp_makers import start_python

    if client == "TypeScript SDK":
        return Driver(start_node(DRIVERS / "typescript_client.mjs", CACHE), environment)
    maker, packages = MAKERS[client]
    return Driver([*start_python("../../crossings/drivers/python_client.py", packages), maker], environment)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response as curl prints it."""

    status: int
    fields: dict[str, str]
    body: Any


def run_curl(target: Target, method: str, path: str, fields: Mapping[str, str], body: Any = None) -> Answer:
    """Make one request with curl, with the credentials of the caller."""
    own = {"authorization": f"Bearer {target.token}"} if target.token else {}
    words = ["curl", "-sS", "-i", "--max-time", "60", "-X", method, f"{target.base}{path}"]
    for name, value in {**own, **fields}.items():
        words += ["-H", f"{name}: {value}"]
    if body is not None:
        words += ["-H", "content-type: application/json", "--data-binary", json.dumps(body)]
    done = subprocess.run(words, env=target.environment, capture_output=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr.decode()
    head, _, text = done.stdout.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    found = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    is_json = "json" in found.get("content-type", "")
    return Answer(int(first.split()[1]), found, json.loads(text) if is_json else text)


def stream_curl(target: Target, call: Call, outcome: Outcome, path: str, fields: Mapping[str, str], body: Any) -> Any:
    """Make a request whose answer is a stream of events, and take each item as it arrives; return the last message."""
    own = {"authorization": f"Bearer {target.token}"} if target.token else {}
    words = ["curl", "-sS", "-N", "--max-time", "60", f"{target.base}{path}", "--data-binary", json.dumps(body)]
    for name, value in {**own, **fields, "content-type": "application/json"}.items():
        words += ["-H", f"{name}: {value}"]
    last: Any = None
    with subprocess.Popen(words, env=target.environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            text = line.strip().removeprefix("data:").strip()
            if not text.startswith("{"):
                continue
            message = json.loads(text)
            if message.get("method") == "notifications/progress":
                take_item(outcome, call, target, message["params"].get("message"))
            elif call.protocol == "OpenTool" and message.get("error") is None and message.get("result"):
                take_item(outcome, call, target, message["result"]["result"])
            elif "jsonrpc" in message:  # OpenTool also says that a stream starts, and that it is done
                last = message
    return last


def call_curl(target: Target, call: Call) -> Outcome:
    """Call with curl, whose user reads the documentation of the protocol."""
    outcome = Outcome()
    if call.protocol.startswith("MCP"):
        call_curl_mcp(target, call, outcome)
        return outcome
    fields: dict[str, str] = {"prefer": "wait=30"} if call.consent == "inbox" else {}
    context = {"secrets": {SECRET: SEAL}}
    if call.kind == "requirements" and call.protocol != "OTC":
        fields["toolwire-context"] = urlsafe_b64encode(json.dumps(context).encode()).decode()

    def send() -> Answer:
        if call.protocol == "OpenAPI":
            # By the document: a gateway that trusts its upstream's list of reads serves them by GET, and no others.
            document = run_curl(target, "GET", "/openapi.json", {}).body
            if "get" in document["paths"][f"/api/{call.tool}"]:
                return run_curl(target, "GET", f"/api/{call.tool}?row={call.row}", fields)
            return run_curl(target, "POST", f"/api/{call.tool}", fields, call.arguments)
        if call.protocol == "OpenTool":
            body = {"jsonrpc": "2.0", "id": "1", "method": call.tool, "params": call.arguments}
            if call.is_watched:
                last = stream_curl(target, call, outcome, "/opentool/streamCall", fields, body)
                return Answer(200, {}, last or {"result": {"result": outcome.items}})
            return run_curl(target, "POST", "/opentool/call", fields, body)
        request = {"tool_id": call.tool, "input": call.arguments}
        if call.kind == "requirements":
            request["context"] = context
        return run_curl(target, "POST", "/call", fields, {"request": request})

    answer = send()
    challenge = find_challenge(answer.body)
    # The user of curl reads the question, and repeats the call with the word.
    if challenge and call.consent in ("auto", "form"):
        outcome.consented.append(str(answer.body))
        fields[challenge["header"]] = challenge["word"]
        answer = send()
    read_plain_answer(outcome, call, target, answer)
    return outcome


def find_challenge(body: Any) -> Mapping[str, Any] | None:
    """Return what an answer says of how the call is confirmed, wherever its protocol has that."""
    if isinstance(body, dict):
        if isinstance(found := body.get("confirmation"), dict) and "word" in found:
            return found
        return next((found for one in body.values() if (found := find_challenge(one))), None)
    return None


def find_call_id(body: Any) -> str:
    """Return the id of a long call that goes on, wherever an answer has it."""
    if isinstance(body, dict):
        if isinstance(body.get("id"), str) and body.get("state") in ("accepted", "running", "waiting"):
            return str(body["id"])
        return next((found for one in body.values() if (found := find_call_id(one))), "")
    return ""


def read_long_call(outcome: Outcome, target: Target, id_: str) -> None:
    """Ask for the result of a long call until it is there."""

    def read_ended() -> Any:
        status = run_curl(target, "GET", f"/calls/{id_}", {"prefer": "wait=30"}).body
        return status if status["state"] == "ended" else None  # it waits for the answer in the inbox too

    status = wait_until(read_ended)
    outcome.value, outcome.refusal = status.get("result"), json.dumps(status.get("error", ""))[1:-1]


def read_plain_answer(outcome: Outcome, call: Call, target: Target, answer: Answer) -> None:
    """Take the answer of a protocol that has HTTP or a member for it."""
    body = answer.body
    if id_ := find_call_id(body):
        read_long_call(outcome, target, id_)
    elif answer.status >= 400:
        outcome.refusal = f"{answer.status} {json.dumps(body)}"
    elif call.protocol == "OTC":
        if body.get("success", True) and "output" in body:
            outcome.value = read_value(body["output"]["value"])
        else:
            outcome.refusal = json.dumps(body)
    elif call.protocol == "OpenTool":
        if body.get("error") is None:
            result = body["result"]
            outcome.value = read_value(result.get("result", result))
        else:
            outcome.refusal = json.dumps(body)
    else:
        outcome.value = read_value(body)


def call_curl_mcp(target: Target, call: Call, outcome: Outcome) -> None:
    """Call with JSON-RPC by hand: statelessly by the newer revision, in a session by the older one."""
    version = call.protocol.removeprefix("MCP ")
    meta: dict[str, Any] = {"toolwire/context": {"secrets": {SECRET: SEAL}}} if call.kind == "requirements" else {}
    if call.is_watched:
        meta["progressToken"] = "items"
    fields = {"accept": "application/json, text/event-stream", "mcp-protocol-version": version}
    about = {"name": "curl", "version": "8"}
    if call.protocol == MODERN:
        own = {f"{META}protocolVersion": version, f"{META}clientCapabilities": {}, f"{META}clientInfo": about}
        meta |= own
        fields |= {"mcp-method": "tools/call", "mcp-name": call.tool}
    else:
        hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": about}
        opened = run_curl(
            target,
            "POST",
            "/mcp",
            {"accept": fields["accept"]},
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
        )
        if session := opened.fields.get("mcp-session-id"):
            fields["mcp-session-id"] = session
        run_curl(target, "POST", "/mcp", fields, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    params = {"name": call.tool, "arguments": call.arguments, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    message = stream_curl(target, call, outcome, "/mcp", fields, body)
    if id_ := find_call_id(message):
        read_long_call(outcome, target, id_)
    elif message is None or "error" in message:
        outcome.refusal = json.dumps(message)
    elif "content" in message["result"]:
        read_mcp_result(outcome, message["result"])
    else:
        outcome.refusal = json.dumps(message["result"])
