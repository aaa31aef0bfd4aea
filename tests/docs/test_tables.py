"""The tables of the reference say what the code says."""

from __future__ import annotations

import ast
import inspect
import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from spec import gateway_keys
from spec.cli_options import MARK, write_rows
from spec.extras import IN_FRAMEWORKS
from tests.docs.page_tables import REFERENCE, read_rows
from toolwire.cli import parser
from toolwire.cli.parser import list_commands
from toolwire.client.transport.limits import TransportLimits as ClientLimits
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Pending, Site
from toolwire.core.http import Request
from toolwire.core.model import Kind, Problem, Tool
from toolwire.define.options import Options
from toolwire.hosting import gateway_file
from toolwire.protocols import BUILTIN
from toolwire.server.build import asgi
from toolwire.server.http.deadlines import Deadlines
from toolwire.server.limits import ServerLimits
from toolwire.server.route_table import RouteTable

from .page import ROOT

_RULE = re.compile(r"[A-Z]+-\d+")
CATALOG = Catalog(title="Kit", tools=(Tool(name="read", toolkit="Kit", safe=True), Tool(name="write", toolkit="Kit")))
CODECS = {codec.name: codec for codec in BUILTIN}
BEFORE_A_CALL = {
    Kind.MALFORMED,
    Kind.UNSUPPORTED_TYPE,
    Kind.TOO_LARGE,
    Kind.TOO_SLOW,
    Kind.NOT_FOUND,
    Kind.WRONG_METHOD,
    Kind.UNAUTHORIZED,
    Kind.FORBIDDEN,
    Kind.MISDIRECTED,
}
"""Said before any reader has seen the request; every other kind is how a call ended."""
CALLS: dict[str, tuple[str, Any]] = {
    "openapi": ("/api/write", {}),
    "otc": ("/call", {"request": {"tool_id": "Kit.write"}}),
    "opentool": ("/opentool/call", {"jsonrpc": "2.0", "id": "1", "method": "write"}),
    "mcp": ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "write", "arguments": {}}}),
}


@pytest.mark.parametrize(
    ("heading", "limits"),
    [("## A server:", ServerLimits()), ("## A server's", Deadlines()), ("## A client", ClientLimits())],
)
def test_documented_limits_equal_the_defaults(heading: str, limits: Any) -> None:
    written = [(name, default.replace(",", "")) for name, default, *_ in read_rows("limits.md", heading)]
    values = {field.name: getattr(limits, field.name) for field in fields(limits) if field.name != "breaker_name"}
    assert written == [
        (name, "none" if value is None else f"{value:g}" if value < 1 else str(int(value)))
        for name, value in values.items()
    ]


def test_documented_problem_kinds_equal_the_codes_of_every_protocol() -> None:
    written = {kind: cells[:4] for kind, *cells in read_rows("problems.md")}
    wires = ("openapi", "otc", "opentool", "mcp")
    assert written == {kind.value: [find_status(wire, kind) for wire in wires] for kind in Kind}


def find_status(wire: str, kind: Kind) -> str:
    codec, problem = CODECS[wire], Problem(kind=kind, message="It is so.")
    path, body = CALLS[wire]
    headers = ((b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream"))
    reading = codec.routes(CATALOG, Site())["POST", path].read(
        Request("POST", path, headers, json.dumps(body).encode(), "1")
    )
    assert isinstance(reading, Pending)
    answer = codec.refuse(problem) if kind in BEFORE_A_CALL else reading.reply(problem, 0.0)
    content = json.loads(answer.body)
    if wire not in ("opentool", "mcp"):
        return str(answer.status)
    return f"{answer.status}, {'isError' if 'error' not in content else content['error']['code']}"


def test_documented_paths_equal_the_routes_and_name_the_public_ones() -> None:
    served = {("GET", "/", "", "no"), ("POST", "/", "", "yes"), ("GET", "/page.js", "", "no")}
    for codec in BUILTIN:
        for (method, path), route in codec.routes(CATALOG, Site()).items():
            name = re.sub("/(read|write)$", "/NAME", path)
            served.add((method, name, codec.name, "no" if route.is_public else "yes"))
    assert {tuple(cells[:4]) for cells in read_rows("protocols.md")} == served
    for method, path in (("GET", "/"), ("POST", "/"), ("GET", "/page.js")):
        assert RouteTable(CATALOG, BUILTIN, Site()).find_entry(method, path).open is (method == "GET")
    calls = [tuple(cells[:4]) for cells in read_rows("protocols.md", "## Long calls")]
    items = [(method, "/calls/ID", "", "yes") for method in ("GET", "POST", "DELETE")]
    assert calls == [("GET", "/calls", "", "yes"), *items]
    long = RouteTable(Catalog(tools=(Tool(name="t", long=True),)), BUILTIN, Site())
    for method, path in (("GET", "/calls"), ("GET", "/calls/1"), ("POST", "/calls/1"), ("DELETE", "/calls/1")):
        assert (long.find_entry(method, path).open, long.find_entry(method, path).protocol) == (False, "calls")


def test_documented_tool_options_equal_the_code() -> None:
    assert [name for name, _ in read_rows("python.md", "## Options of a tool")] == list(Options.__annotations__)


@pytest.mark.requirement("FU-41")
def test_every_option_of_asgi_is_in_its_table() -> None:
    written = [name for name, _ in read_rows("asgi-options.md")]
    assert written == list(inspect.signature(asgi).parameters)[1:]


def test_documented_commands_equal_the_parser() -> None:
    assert sorted(command.split()[1] for command, _ in read_rows("cli.md")) == sorted(list_commands("1"))


def test_documented_options_equal_the_parser() -> None:
    above, _, below = (REFERENCE / "cli.md").read_text().partition(f"{MARK}\n\n")
    assert above.endswith("can set for commands.\n\n")
    assert below.partition("\n\n")[0].split("\n") == write_rows()
    assert len(write_rows()) > 120


def test_documented_keys_of_a_gateway_file_equal_its_reader() -> None:
    above, _, below = gateway_keys.PAGE.read_text().partition(gateway_keys.MARK)
    assert above.endswith("holds it.\n\n")
    assert below.split("\n") == ["", *gateway_keys.write_sections(), ""]
    for _, keys, known in gateway_keys.TABLES.values():
        assert set(keys) == set(known)
    assert set(gateway_keys.SERVER) == set(gateway_file._OF_THE_SERVER)


def test_documented_exit_codes_equal_the_help() -> None:
    shown = parser._EPILOG.partition("Exit codes: ")[2].partition(".")[0]
    assert [code for code, _ in read_rows("cli.md", "## Exit codes")] == re.findall(r"\b\d\b", shown)


def test_security_model_names_existing_files() -> None:
    places = [row[1] for heading in ("## A server", "## A client") for row in read_rows("security.md", heading)]
    files = [place for place in places if "/" in place]
    assert len(files) > 15
    assert [file for file in files if not (ROOT / "src" / "toolwire" / file).is_file()] == []


def test_documented_openapi_checks_equal_the_rules() -> None:
    written = {(rule, severity) for rule, severity, _ in read_rows("check.md", "## OpenAPI documents")}
    assert written == _rules_of(ROOT / "src/toolwire/protocols/openapi/validator.py") | _rules_of(
        ROOT / "src/toolwire/framing/xllm_faults.py"
    )


def _rules_of(module: Path) -> set[tuple[str, str]]:
    """Return the rule and the severity of each fault that ``module`` can find, as its text has them."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        texts += [one.value.value for one in node.keywords if isinstance(one.value, ast.Constant)]
        severity = "warning" if "warn" in node.func.id or "warning" in texts else "error"
        found.update((text, severity) for text in texts if isinstance(text, str) and _RULE.fullmatch(text))
    return found


@pytest.mark.requirement("FU-10")
def test_documented_extras_equal_the_package_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {"(none)": project["dependencies"], **project["optional-dependencies"]}
    written = {extra: names.split(", ") for extra, _, names, _, _ in read_rows("extras.md")}
    named = {extra: [Requirement(text) for text in texts] for extra, texts in declared.items()}
    expected = {
        extra: [name for one in found for name in (sorted(one.extras) if one.name == "toolwire" else [one.name])]
        for extra, found in named.items()
    }
    assert written == {extra: expected[extra] for extra in written}
    assert expected.keys() == written.keys()
    # `all` is all but the SDKs of models, which are in `adapters`, and frameworks of agents, each by itself.
    together = {*written["all"], *written["adapters"], *IN_FRAMEWORKS}
    assert together == written.keys() - {"all", "adapters", "(none)"}
    assert all(int(size) >= 0 for *_, size in read_rows("extras.md"))
