"""Our client as the MCP conformance suite runs it: ``python mcp_client.py TURNS URL``, what to do in the environment.

The suite starts all its clients at once; each waits for its turn, which is a lock on the file TURNS.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: Mapping[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
DOCUMENT = "https://conformance-test.local/client-metadata.json"
SAMPLES = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
PATIENCE_S = 10.0


def main(url: str) -> int:
    """Do what the scenario asks for at ``url``."""
    from toolwire import ConnectError, connect_sync
    from toolwire.stores.credentials.files import CredentialStore

    with tempfile.TemporaryDirectory() as folder:
        stored = CredentialStore(Path(folder))
        person = _build_sign_in_user()
        _sign_in(url, stored, person)
        try:
            with connect_sync(
                url,
                protocol="mcp",
                approve=lambda _: True,
                provide_input=_enter if SCENARIO.startswith(("sep-2322", "elicitation")) else None,
                user=person,
                credential_store=stored,
                timeout_s=PATIENCE_S,
            ) as remote:
                schemas = {tool.name: (tool.id, tool.input_schema) for tool in remote.tools}
                for name, arguments in _calls(schemas):
                    say(f"{name}: {remote.call(schemas[name][0], arguments)}")
        except ConnectError as error:
            say(str(error), *map(str, error.probes))
            return 1
    return 0


def _enter(asked: Any) -> dict[str, Any]:
    """Enter what a form suggests, and anything that fits where it suggests nothing."""
    samples = {"text": "x", "integer": 1, "number": 1, "boolean": True, "choices": []}
    return {
        one.name: samples.get(one.kind.value, one.choices[0].value if one.choices else None)
        if one.default is None
        else one.default
        for one in asked.fields
        if one.default is not None or one.is_required
    }


def _calls(schemas: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each call to make: those that the scenario names, else one of each tool with any arguments."""
    if "toolCalls" in CONTEXT:
        for call in CONTEXT["toolCalls"]:
            # null is what these schemas do not allow, and we check; what is not given counts as the same here
            yield call["name"], {key: value for key, value in call["arguments"].items() if value is not None}
        return
    if "json_schema_echo" in schemas:
        yield "json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"][1]}
        return
    for name, (_, schema) in schemas.items():
        yield name, {key: SAMPLES.get(inner.get("type"), "x") for key, inner in schema.get("properties", {}).items()}


def _sign_in(url: str, kept: Any, person: Any) -> None:
    """Do what ``toolwire login`` does with the options that some scenarios are about."""
    from toolwire.auth.client_key import ClientKey
    from toolwire.client.login import (
        ClientIdentity,
        IdentityProvider,
        SignInOptions,
        find_sign_in,
        sign_in,
        sign_in_with_secret,
    )
    from toolwire.client.transport.network import SyncNetwork
    from toolwire.core.model import Problem, Secret

    identity = provider = token = None
    if "private_key_pem" in CONTEXT:
        key = ClientKey(CONTEXT["private_key_pem"])
        identity = ClientIdentity(client_id=CONTEXT["client_id"], method="private_key_jwt", key=key)
    elif "client_secret" in CONTEXT:
        secret = Secret(CONTEXT["client_secret"])
        identity = ClientIdentity(client_id=CONTEXT["client_id"], secret=secret, method="client_secret_basic")
    elif SCENARIO not in ("auth/basic-cimd", "auth/wif-jwt-bearer"):
        return
    if "idp_id_token" in CONTEXT:
        here = ClientIdentity(client_id=CONTEXT["idp_client_id"])
        provider, token = IdentityProvider(issuer=CONTEXT["idp_issuer"], identity=here), CONTEXT["idp_id_token"]
    elif "valid_jwt" in CONTEXT:
        token = CONTEXT["valid_jwt"]
    options = SignInOptions(
        identity=identity,
        document_url=DOCUMENT,
        assertion=None if token is None else lambda _: Secret(token),
        provider=provider,
    )
    transport = SyncNetwork()
    place = find_sign_in(url, transport)
    if isinstance(place, Problem):
        found: Any = place
    elif identity is not None and SCENARIO == "auth/client-credentials-basic":
        found = sign_in_with_secret(place, identity, (), person, transport)
    else:
        found = sign_in(place, options, person, transport)
    transport.close()
    if isinstance(found, Problem):
        say(found.message)
    else:
        kept.put(found)


def _build_sign_in_user() -> Any:
    from toolwire.client.login import SignInUser

    # Each server of the suite is at a port of its own.
    return SignInUser(show=say, open_page=_browse, allow_server=lambda _site, _origin: True, wait_s=PATIENCE_S)


def _browse(address: str) -> bool:
    """Open ``address`` as a person's browser would: the suite's pages send on at once."""
    import httpx2

    def go() -> None:
        try:
            httpx2.get(address, follow_redirects=True, timeout=PATIENCE_S)
        except httpx2.HTTPError as error:
            say(f"{address} did not open: {error}")

    threading.Thread(target=go, daemon=True).start()
    return True


def say(*lines: str) -> None:
    """Tell whoever looks for what went wrong."""
    print(*lines, sep="\n", file=sys.stderr)


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w") as turns:
        fcntl.flock(turns, fcntl.LOCK_EX)
        sys.exit(main(sys.argv[2]))
