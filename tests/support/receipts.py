"""A server that wants receipts, and keys to sign them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from toolwire import Toolkit, asgi
from toolwire.auth.receipt import (
    ReceiptBinding,
    ReceiptKey,
    digest_arguments,
)
from toolwire.server import App

OWNERS = {"ann": "ann-key-000000000000000000000000", "bob": "bob-key-000000000000000000000000"}


def write_keys(file: Path, *keys: ReceiptKey, **owners: ReceiptKey) -> Path:
    entries = [one.to_public_jwk() for one in keys]
    entries += [{**one.to_public_jwk(), "principal": f"key:{name}"} for name, one in owners.items()]
    file.write_text(json.dumps({"keys": entries}))
    return file


class Desk:
    """Tools that need consent or not, and what they did."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.kit = kit = Toolkit("Desk")

        @kit.tool(approval="per-call")
        def erase(name: str) -> str:
            """Erase something."""
            self.done.append(name)
            return "erased"

        @kit.tool(approval="per-call")
        def write(name: str) -> str:
            """Write something."""
            self.done.append(name)
            return "written"

        @kit.tool(approval="auto", safe=True)
        def look() -> str:
            """Look."""
            return "tea"

    def serve(self, keys: Path, **more: Any) -> App:
        return asgi(self.kit, receipts="required", receipt_keys=keys, **more)


class Wire:
    """Sends calls by hand, and signs what the server wants signed."""

    def __init__(self, url: str, key: ReceiptKey) -> None:
        self.url, self.key = url, key

    def post(
        self, arguments: Mapping[str, Any], fields: Mapping[str, str], *, tool: str = "erase", who: str = "ann"
    ) -> tuple[int, Any]:
        headers = {"content-type": "application/json", "authorization": f"Bearer {OWNERS[who]}", **fields}
        request = Request(f"{self.url}/api/{tool}", json.dumps(arguments).encode(), headers)
        try:
            with urlopen(request) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)

    def sign(self, key: ReceiptKey | None = None, **changes: Any) -> dict[str, str]:
        """Return the header fields that prove erase(name="x") of ann, or with ``changes`` something else."""
        status, asked = self.post({"name": "x"}, {})
        assert status == 428
        challenge = asked["details"]["confirmation"]
        terms = challenge["receipt"]
        binding = ReceiptBinding(
            audience=self.url.removeprefix("http://"),
            principal=terms["principal"],
            tool=terms["tool"],
            definition=terms["definition"],
            arguments=digest_arguments({"name": "x"}),
            nonce=challenge["word"],
        )
        end = changes.pop("expires_at", terms["expires_at"])
        binding = replace(binding, **changes)
        signed = (key or self.key).sign(binding, decided_at=end - 300, expires_at=end)
        return {challenge["header"]: challenge["word"], terms["header"]: signed}
