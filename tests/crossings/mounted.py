"""The tools in an application of FastAPI, below a path of it: ``uvicorn tests.crossings.mounted:app``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from tests.crossings.kit import kit
from toolwire import ApiKey, Secret, asgi
from toolwire.auth.caller_token import ExpectedClaims, read_jwks
from toolwire.server.access.signed_tokens import SignedTokenCallers

app = FastAPI(title="A shop")


@app.get("/hello")
def hello() -> str:
    return "hello"


def build_options(said: dict[str, Any]) -> dict[str, Any]:
    """Return the options of ``asgi`` that say who may call, and how users consent."""
    options: dict[str, Any] = {"state": said["state"]}
    if said["key"]:
        options["api_keys"] = [ApiKey(key=Secret(said["key"]), name="ann")]
        keyring = read_jwks(Path(said["jwks"]).read_bytes())
        claims = ExpectedClaims(issuer=said["issuer"], audience=said["audience"])
        options["callers"] = SignedTokenCallers(keyring, claims)
    if said["receipts"]:
        return {**options, "receipts": "required", "receipt_keys": said["receipts"]}
    return {**options, "consent": "inbox", "ask_wait": 30}


app.mount("/tools", asgi(kit, **build_options(json.loads(os.environ["CROSSINGS_OPTIONS"]))))
