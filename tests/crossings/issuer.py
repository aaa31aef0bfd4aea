"""Our own authorization server, whose signed tokens other servers accept: ``uvicorn tests.crossings.issuer:app``."""

from __future__ import annotations

import json
import os
from typing import Any

from tests.crossings.people import NAME, PASSWORD
from toolwire.oauth import SigningKey, authorization_server, open_accounts

said: dict[str, Any] = json.loads(os.environ["CROSSINGS_OPTIONS"])
accounts = open_accounts(said["store"])
accounts.add(NAME, PASSWORD)
app = authorization_server(
    issuer=said["issuer"],
    resource=said["resource"],
    store=said["store"],
    users=accounts,
    scopes={"use": "Use the tools"},
    registration=True,
    key=SigningKey(),
)
