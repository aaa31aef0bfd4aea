"""The checks of what a server of Open Tool Calling says of itself: its health, and its list of tools."""

from __future__ import annotations

from typing import Final

from toolwire.core.catalog import make_version_key
from toolwire.framing.jsontext import describe_type
from toolwire.framing.report import PathFault, list_steps
from toolwire.protocols.otc.rules import examine
from toolwire.testing.server_checks.check import Check, Look, Skip
from toolwire.testing.server_checks.probe import ServerProbe

from .send_call import tools_of


def _healthy(ask: ServerProbe) -> str | None:
    answer = ask.get("/health")
    return None if answer.status == 200 else f"GET /health: {answer}"


def _health_is_open(ask: ServerProbe) -> str | None:
    answer = ask.get("/health", keyed=False)
    return None if answer.status == 200 else f"without a key: {answer}"


def _health_is_json(ask: ServerProbe) -> str | None:
    answer = ask.get("/health")
    return None if answer.members else f"the body is {answer.text!r}"


def _listed(ask: ServerProbe) -> str | None:
    answer = ask.get("/tools")
    if answer.status != 200:
        return f"GET /tools: {answer}"
    if not isinstance(answer.data, dict):
        return f"the body is {describe_type(answer.data)}, not an object"
    return None if isinstance(answer.members.get("tools"), list) else 'there is no "tools"'


def _list_says_version(ask: ServerProbe) -> str | None:
    return None if isinstance(ask.get("/tools").members.get("$schema"), str) else 'the list has no "$schema"'


def _items(ask: ServerProbe) -> str | Skip | None:
    items = ask.get("/tools").members.get("items")
    if items is None:
        return Skip('it lists no "items", as OXP does')
    return None if isinstance(items, list) else f'"items" is {describe_type(items)}'


def _faults(ask: ServerProbe) -> list[PathFault]:
    found: list[PathFault] = ask.once("faults", lambda: examine(ask.get("/tools").data))
    return found


def _defined(*rules: str) -> Look:
    """Look for errors of some rules in the list of tools."""

    def look(ask: ServerProbe) -> str | Skip | None:
        if not tools_of(ask):
            return Skip("it lists no tools")
        faults = [fault for fault in _faults(ask) if fault.severity == "error" and fault.rule in rules]
        if not faults:
            return None
        first = faults[0]
        where = "/" + "/".join(str(step) for step in list_steps(first.path))
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return f"{where}: {first.message}{more}"

    return look


def _ascending(ask: ServerProbe) -> str | Skip | None:
    last: dict[str, str] = {}
    for tool in tools_of(ask):
        name, version = str(tool.get("id", "")).partition("@")[0], str(tool.get("version", "0"))
        if make_version_key(version) < make_version_key(last.get(name, "0")):
            return f"{name}@{version} stands after {name}@{last[name]}"
        last[name] = version
    return None


LISTING: Final = (
    Check("OTC-033", "GET /health answers 200.", _healthy),
    Check("OXP-010", "GET /health needs no credentials.", _health_is_open),
    Check("A-50", "GET /health answers a JSON object.", _health_is_json),
    Check("OTC-034", "GET /tools answers 200 with an object that lists the tools.", _listed),
    Check("OTC-044", "The list of tools says its $schema.", _list_says_version),
    Check("OXP-003", "The list has the tools as OXP's items, too.", _items),
    Check("OTC-001", "Each id is Toolkit.Tool@1.0.0, of letters, digits and underscores.", _defined("OTC-001")),
    Check("OTC-002", "No two tools have one id.", _defined("OTC-002")),
    Check("OTC-003", "Each name is 1 to 64 letters, digits, underscores and dashes.", _defined("OTC-003")),
    Check("OTC-004", "Each tool has a description.", _defined("OTC-004")),
    Check("OTC-005", "Each tool has a version of three numbers.", _defined("OTC-005")),
    Check("OTC-007", "Each tool has an input schema.", _defined("OTC-007")),
    Check("OTC-008", "The RFC's input schema has parameters.", _defined("OTC-008")),
    Check("OTC-009", "No schema refers to another or defines one.", _defined("OTC-009")),
    Check("OTC-010", "Each parameter is a JSON Schema.", _defined("OTC-010")),
    Check("OTC-011", "Each parameter has a description.", _defined("OTC-011")),
    Check("OTC-012", "Each tool has an output schema, or null.", _defined("OTC-012")),
    Check("OTC-016", "Requirements name providers and secrets by id.", _defined("OTC-013", "OTC-016", "OTC-017")),
    Check("OXP-005", "OXP's items have no members beyond those it names.", _defined("OXP-005")),
    Check("A-51", "The versions of one tool stand in ascending order.", _ascending),
)
