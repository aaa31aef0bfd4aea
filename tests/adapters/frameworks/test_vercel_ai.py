"""The AI SDK of Vercel calls our tools over MCP, and its user decides by forms or by its own approvals."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from typing import Any

import pytest

from tests.adapters.frameworks.desk import HERE, Desk
from tests.adapters.frameworks.packages import CACHE, INSTALLED, MISSING
from tests.interop.mcp_suite import NODE
from toolwire import asgi
from toolwire.testing import background

pytestmark = [
    pytest.mark.requirement("FU-22"),
    pytest.mark.skipif(not INSTALLED or not NODE.exists(), reason=MISSING),
]


@pytest.mark.requirement("CC-05")
def test_the_ai_sdk_calls_streams_and_asks_by_forms_and_by_its_own_approvals() -> None:
    desk = Desk()
    script = CACHE / "vercel_ai_program.mjs"  # where Node finds the packages
    script.write_bytes((HERE / "vercel_ai_program.mjs").read_bytes())
    with background(asgi(desk.kit)) as site, background(asgi(desk.kit, consent="refuse")) as refusing:
        ran = subprocess.run(
            [str(NODE), str(script)],
            input=json.dumps({"site": site, "refusing": refusing}),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    parts: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    assert not [one["failed"] for one in parts.values() if "failed" in one]

    def read(part: str) -> str:
        return " ".join(parts[part]["read"])

    declared = {one["name"]: one for one in parts["look"]["declared"]}
    assert declared["add"]["parameters"]["properties"]["page_size"]["type"] == "integer"
    assert "tea." in read("look")
    assert "tea." in read("stream")
    assert parts["stream"]["text"] == "done"
    assert "The drawer is locked." in read("fail")
    assert "page_size" in read("wrong")
    for part in ("form yes", "approval yes"):
        assert len(parts[part]["asked"]) == 1
        assert f"erased {part}" in read(part)
    assert 'Arguments: {"name":"form yes"}' in parts["form yes"]["asked"][0]
    assert len(parts["form both"]["asked"]) == 2
    assert "it needs the consent of its user" in read("refused")
    assert "denied" in read("approval no")
    assert Counter(desk.done) == {"form yes": 1, "form both": 1, "approval yes": 1}
