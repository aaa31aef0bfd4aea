"""Schemathesis, with every check it has, between our descriptions and our answers.

``TOOLWIRE_SCHEMATHESIS`` is about how many requests each description gets; 10,000 of them take some minutes.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.process.amounts import report
from toolwire import ToolError, Toolkit

ROOT = Path(__file__).parents[2]
PUBLISHED = json.loads((ROOT / "spec" / "otc" / "1.0" / "openapi.json").read_text(encoding="utf-8"))
REQUESTS = int(os.environ.get("TOOLWIRE_SCHEMATHESIS", "200"))
SECONDS = 120 + REQUESTS // 4
PROGRAM = Path(sys.executable).with_name("schemathesis")
# GR-05: QUERY stands beside each GET, and OpenAPI 3.1 cannot list it.
TAKES_QUERY = '[phases.coverage]\nunexpected-methods = ["DELETE", "PATCH", "POST", "PUT", "TRACE"]\n'
NAMES_ARE_FREE = '[checks]\npositive_data_acceptance.expected-statuses = ["200", "400", "422"]\n'
"""The description lets any text name a tool and any object be its input; which of them are right it cannot say."""

pytestmark = pytest.mark.requirement("R7")


def office() -> Toolkit:
    toolkit = Toolkit("Office", version="1.2.0")

    @toolkit.tool(approval="auto")
    def repeat(text: str, times: int = 1, mode: Literal["up", "down"] = "up") -> list[str]:
        """Say something, more than once."""
        if times > 100:
            raise ToolError("That is too often.", can_retry=False)
        return [mode, *[text] * times]

    @toolkit.tool
    def crash(parts: dict[str, list[float]] | None = None) -> str:
        """Fail."""
        raise ToolError(f"{parts} is nothing.", developer_message="by accident")

    return toolkit


def with_tools(toolkit: Toolkit) -> dict[str, Any]:
    """Return the published description with calls of these tools and of no others."""
    description = deepcopy(PUBLISHED)
    calls = []
    for tool in toolkit.catalog().tools:
        closed = {**tool.input_schema, "additionalProperties": False}  # what a tool does not declare is refused
        call = {
            "type": "object",
            "properties": {
                "tool_id": {"enum": [tool.id, tool.id.partition("@")[0], tool.name]},
                "input": closed if tool.required_parameters else {"anyOf": [closed, {"type": "null"}]},
            },
            "required": ["tool_id", "input"] if tool.required_parameters else ["tool_id"],
        }
        calls.append(call)
    request = description["components"]["schemas"]["CallToolRequest"]
    request["properties"]["request"] = {"anyOf": calls}
    for path in ("/call", "/tools/call"):
        del description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
    return description


def with_keys(description: dict[str, Any]) -> dict[str, Any]:
    """Return ``description`` as it is where a key is needed."""
    for path in description["paths"].values():
        for operation in path.values():
            operation["security"] = [{"bearer": []}] if operation["security"] else []
    return description


def run_schemathesis(
    tmp_path: Path,
    description: dict[str, Any] | str,
    url: str,
    *options: str,
    name: str,
    config: str = "",
    examples: int = REQUESTS // 2,
) -> int:
    """Let Schemathesis try the server at ``url``; return how many requests it made, all of them answered right.

    ``examples`` is how many each operation gets; ``name`` is that of the description in the record of a long run.
    """
    (tmp_path / "schemathesis.toml").write_text(config, encoding="utf-8")
    location = description
    if not isinstance(description, str):
        location = str(tmp_path / "openapi.json")
        Path(location).write_text(json.dumps(description), encoding="utf-8")
    command = [PROGRAM, "run", location, "--url", url, "--checks", "all", "--no-color", "--generation-deterministic"]
    command += ["--max-examples", str(max(examples, 1)), "--continue-on-failure", "--workers", "1", *options]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ran.returncode == 0, ran.stdout[-6_000:] + ran.stderr[-2_000:]
    made = re.search(r"([\d,]+) generated", ran.stdout)
    assert made is not None, ran.stdout
    requests = int(made[1].replace(",", ""))
    report("R7", "schemathesis", failures=0, **{f"requests to the {name} description": requests})
    return requests


def test_server_conforms_to_the_published_otc_description(serve: Callable[..., str], tmp_path: Path) -> None:
    assert run_schemathesis(tmp_path, PUBLISHED, serve(office()), config=NAMES_ARE_FREE, name="published") >= REQUESTS


def test_server_conforms_to_the_description_of_its_tools(serve: Callable[..., str], tmp_path: Path) -> None:
    assert run_schemathesis(tmp_path, with_tools(office()), serve(office()), name="own") >= REQUESTS


def test_server_with_keys_conforms_to_its_description(serve: Callable[..., str], tmp_path: Path) -> None:
    url = serve(office(), api_keys=["K1"])
    description, key = with_keys(with_tools(office())), "Authorization: Bearer K1"
    assert run_schemathesis(tmp_path, description, url, "--header", key, name="keyed") >= REQUESTS


def test_server_conforms_to_its_openapi_document(serve: Callable[..., str], tmp_path: Path) -> None:
    url = serve(runpy.run_path(str(ROOT / "examples" / "calculator.py"))["calculator"])
    document = f"{url}/openapi.json"  # of one operation
    assert run_schemathesis(tmp_path, document, url, config=TAKES_QUERY, name="OpenAPI", examples=REQUESTS) >= REQUESTS
