"""``toolwire approvals key`` and ``verify``, and the options of servers that require receipts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire.auth.receipt import ReceiptBinding, ReceiptKey, StoredReceipt
from toolwire.hosting.build_settings import build_settings
from toolwire.hosting.gateway_file import parse_gateway_file
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.stores.consent.audit import StoredAudit
from toolwire.testing import background

BINDING = ReceiptBinding(
    audience="a.example",
    principal="key:ann",
    tool="Desk.note@1.0.0",
    definition="d" * 64,
    arguments="a" * 64,
    nonce="n",
)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "toolwire"


def write_receipt(file: Path, key: ReceiptKey, **changes: Any) -> str:
    receipt = key.sign(BINDING, decided_at=1_800_000_000, expires_at=1_800_000_300, shown="s")
    stored = StoredReceipt(receipt=receipt, binding=BINDING).to_json()
    file.write_text(json.dumps({**stored, "binding": {**stored["binding"], **changes}}))
    return str(file)


@pytest.mark.requirement("CC-06")
def test_a_key_is_made_once_and_again_where_that_is_asked_for(state: Path, toolwire: Callable[..., Any]) -> None:
    first = json.loads(toolwire("approvals", "key").out)["keys"]
    assert json.loads(toolwire("approvals", "key").out)["keys"] == first
    both = json.loads(toolwire("approvals", "key", "--rotate").out)["keys"]
    assert both[0] == first[0]
    assert len({one["kid"] for one in both}) == len(both) == 2
    assert all(set(one) == {"kty", "crv", "x", "kid", "alg", "use"} for one in both)


@pytest.mark.requirement("CC-06")
def test_a_receipt_is_proved_without_its_server(state: Path, tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    key = ReceiptKey()
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [key.to_public_jwk()]}))
    file = write_receipt(tmp_path / "receipt.json", key)
    proved = toolwire("approvals", "verify", file, "--keys", str(keys))
    assert (proved.code, proved.err) == (0, "")
    assert proved.out.splitlines()[0] == (
        "valid: allowed Desk.note@1.0.0 at a.example for key:ann, decided 2027-01-15 08:00:00 UTC"
    )
    found = json.loads(toolwire("approvals", "verify", file, "--keys", str(keys), "--json").out)
    assert (found["valid"], found["key"], found["shown"]) == (True, key.id, "s")
    assert found["binding"]["principal"] == "key:ann"
    assert toolwire("approvals", "verify", file).code == 2  # there are no own keys
    toolwire("approvals", "key")
    unknown = toolwire("approvals", "verify", file)
    assert unknown.code == 1
    assert "its signing key is unknown" in unknown.err


@pytest.mark.requirement("CC-06")
@pytest.mark.parametrize("member", ["audience", "principal", "tool", "definition", "arguments", "nonce", "decision"])
def test_a_receipt_with_another_binding_proves_nothing(
    state: Path, tmp_path: Path, toolwire: Callable[..., Any], member: str
) -> None:
    key = ReceiptKey()
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [key.to_public_jwk()]}))
    file = write_receipt(tmp_path / "receipt.json", key, **{member: "other\u202e"})
    for options in ((), ("--json",)):
        refused = toolwire("approvals", "verify", file, "--keys", str(keys), *options)
        assert refused.code == 1
        assert "was changed" in refused.out + refused.err
        assert "\u202e" not in refused.out + refused.err


@pytest.mark.requirement("CC-06")
@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"receipt": 1}', '{"receipt": "a..b", "binding": {}}'])
def test_a_file_without_a_receipt_is_said_to_be_one(
    state: Path, tmp_path: Path, toolwire: Callable[..., Any], text: str
) -> None:
    toolwire("approvals", "key")
    file = tmp_path / "receipt.json"
    file.write_text(text)
    refused = toolwire("approvals", "verify", str(file))
    assert (refused.code, refused.out) == (1, "")
    assert "contains no receipts" in refused.err
    assert toolwire("approvals", "verify", str(tmp_path / "missing")).code == 2
    assert toolwire("approvals", "verify").code == 2


@pytest.mark.requirement("CC-06")
def test_a_call_at_the_terminal_is_signed_kept_and_proved(
    state: Path, tmp_path: Path, toolwire: Callable[..., Any]
) -> None:
    (tmp_path / "desk.py").write_text(DESK)
    keys = tmp_path / "keys.json"
    keys.write_text(toolwire("approvals", "key").out)
    folder = tmp_path / "server"
    text = f'receipts = "required"\nreceipt-keys = "{keys}"\n[upstreams.desk]\ntarget = "{tmp_path / "desk.py"}"\n'
    file = parse_gateway_file(text.encode(), "toolwire.toml")
    settings = build_settings(file.arguments, file.upstreams)
    assert (settings.server.receipts, settings.server.receipt_keys) == ("required", str(keys))
    file.arguments.state = str(folder)
    settings = build_settings(file.arguments, file.upstreams)
    with background(build_app(settings, open_toolboxes(settings))) as url:
        line = [sys.executable, "-m", "toolwire", "call", url, "note", "text=hello", "--yes"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    [stored] = StoredAudit(folder).entries()
    for path in ((), ("--path", str(folder))):
        log = toolwire("approvals", "log", "--json", *path).out
        (tmp_path / "log.jsonl").write_text(log)
        proved = toolwire("approvals", "verify", str(tmp_path / "log.jsonl"), "--keys", str(keys))
        assert proved.code == 0
        assert proved.out.startswith("valid: allowed Desk.note@1.0.0 at 127.0.0.1:")
    assert toolwire("approvals", "log", "--verify", "--path", str(folder)).code == 0
    assert stored.record.channel == "receipt"


DESK = '''
from toolwire import Toolkit

kit = Toolkit("Desk")


@kit.tool(approval="per-call", blanket_allowed=True)
def note(text: str) -> str:
    """Write a note down."""
    return text
'''
