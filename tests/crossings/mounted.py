"""The tools in an application of FastAPI, below a path of it: ``uvicorn tests.crossings.mounted:app``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from tests.crossings.kit import kit
from toolwire import ApiKey, GrantPage, GrantPages, Secret, ServerLimits, asgi
from toolwire.auth.caller_token import ExpectedClaims, read_jwks
from toolwire.engines.local_engine import LocalEngine
from toolwire.limits import CallerRules, ToolBound, ToolBundle
from toolwire.server.access.signed_tokens import SignedTokenCallers
from toolwire.server.asking.inbox import QuestionNotice
from toolwire.telemetry.calls import Telemetry

RENAMED = {"limit": "limits", "allow_origin": "origins", "allow_host": "hosts", "api_key": "api_keys", "pin": "pins"}
"""What ``asgi`` calls the options of the command line that have another name there."""
notices: list[QuestionNotice] = []
app = FastAPI(title="A shop")


@app.get("/hello")
def hello() -> str:
    return "hello"


def build_options(said: dict[str, Any]) -> dict[str, Any]:
    """Return the options of ``asgi`` that say who may call, and how users consent."""
    extras = {name.replace("-", "_"): value for name, value in said["extras"].items()}
    options: dict[str, Any] = {RENAMED.get(name, name): value for name, value in extras.items()}
    options |= {
        "state": said["state"],
        "debug": True,
        "public_url": "https://tools.example",
        "ask_hosts": True,
        "confirmations": f"{said['state']}-words",
        "caller_rules": {"*": CallerRules(running=100)},
        "require_confirmation": lambda call: "",
        "on_question": notices.append,
        "authorizer": GrantPages({"google": GrantPage("https://tools.example/grant")}),
        "bundles": {"reading": ToolBundle(ToolBound(effects=frozenset({"reads"})), "Reading")},
        "telemetry": Telemetry(tracer_provider=TracerProvider(), meter_provider=MeterProvider()),
    }
    if limits := options.get("limits"):
        pairs = (one.partition("=") for one in limits)
        options["limits"] = ServerLimits(**{name: int(value) for name, _, value in pairs})
    if said["key"]:
        further = [ApiKey(key=Secret(one), name="carl") for one in options.get("api_keys", [])]
        options = {**options, "wake": None, "engine": LocalEngine(10)}  # an engine stands for the queue
        options["api_keys"] = [ApiKey(key=Secret(said["key"]), name="ann"), *further]
    if said["jwks"]:
        keyring = read_jwks(Path(said["jwks"]).read_bytes())
        claims = ExpectedClaims(issuer=said["issuer"], audience=said["audience"])
        options["callers"] = SignedTokenCallers(keyring, claims)
    if said["receipts"]:
        return {**options, "receipts": "required", "receipt_keys": said["receipts"]}
    return {**options, "consent": "inbox", "ask_wait": 30, "inbox": said["state"]}


app.mount("/tools", asgi(kit, **build_options(json.loads(os.environ["CROSSINGS_OPTIONS"]))))
