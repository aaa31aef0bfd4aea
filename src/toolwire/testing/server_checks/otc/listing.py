"""The checks of the health and the list of tools of Open Tool Calling."""

from __future__ import annotations

from typing import Final

from toolwire.core.catalog import make_version_key
from toolwire.framing.jsontext import describe_type
from toolwire.framing.report import PathFault, list_steps
from toolwire.protocols.otc.rules import examine
from toolwire.testing.server_checks.check import Check, CheckFunction, Skip
from toolwire.testing.server_checks.probe import ServerProbe

from .send_call import list_tools


def _check_health(probe: ServerProbe) -> str | None:
    answer = probe.get("/health")
    return None if answer.status == 200 else f"GET /health: {answer}"


def _check_health_without_key(probe: ServerProbe) -> str | None:
    answer = probe.get("/health", keyed=False)
    return None if answer.status == 200 else f"without a key: {answer}"


def _check_health_json(probe: ServerProbe) -> str | None:
    answer = probe.get("/health")
    return None if answer.members else f"the body is {answer.text!r}"


def _check_list(probe: ServerProbe) -> str | None:
    answer = probe.get("/tools")
    if answer.status != 200:
        return f"GET /tools: {answer}"
    if not isinstance(answer.data, dict):
        return f"the body is {describe_type(answer.data)}, not an object"
    return None if isinstance(answer.members.get("tools"), list) else 'there is no "tools"'


def _check_list_schema(probe: ServerProbe) -> str | None:
    return None if isinstance(probe.get("/tools").members.get("$schema"), str) else 'the list has no "$schema"'


def _check_items(probe: ServerProbe) -> str | Skip | None:
    items = probe.get("/tools").members.get("items")
    if items is None:
        return Skip('it lists no "items", as OXP does')
    return None if isinstance(items, list) else f'"items" is {describe_type(items)}'


def _list_faults(probe: ServerProbe) -> list[PathFault]:
    found: list[PathFault] = probe.compute_once("faults", lambda: examine(probe.get("/tools").data))
    return found


def _check_rules(*rules: str) -> CheckFunction:
    """Return a check that the list of tools breaks none of ``rules``."""

    def check(probe: ServerProbe) -> str | Skip | None:
        if not list_tools(probe):
            return Skip("it lists no tools")
        faults = [fault for fault in _list_faults(probe) if fault.severity == "error" and fault.rule in rules]
        if not faults:
            return None
        first = faults[0]
        where = "/" + "/".join(str(step) for step in list_steps(first.path))
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return f"{where}: {first.message}{more}"

    return check


def _check_version_order(probe: ServerProbe) -> str | Skip | None:
    last: dict[str, str] = {}
    for tool in list_tools(probe):
        name, version = str(tool.get("id", "")).partition("@")[0], str(tool.get("version", "0"))
        if make_version_key(version) < make_version_key(last.get(name, "0")):
            return f"{name}@{version} comes after {name}@{last[name]}"
        last[name] = version
    return None


LISTING: Final = (
    Check("OTC-033", "GET /health answers 200.", _check_health),
    Check("OXP-010", "GET /health requires no credentials.", _check_health_without_key),
    Check("A-50", "GET /health returns a JSON object.", _check_health_json),
    Check("OTC-034", "GET /tools answers 200 with an object that lists the tools.", _check_list),
    Check("OTC-044", "The list of tools contains its $schema.", _check_list_schema),
    Check("OXP-003", "The list also contains the tools as items, as OXP requires.", _check_items),
    Check(
        "OTC-001",
        "Each id has the form Toolkit.Tool@1.0.0, with letters, digits and underscores.",
        _check_rules("OTC-001"),
    ),
    Check("OTC-002", "Each id is unique.", _check_rules("OTC-002")),
    Check("OTC-003", "Each name is 1 to 64 letters, digits, underscores and dashes.", _check_rules("OTC-003")),
    Check("OTC-004", "Each tool has a description.", _check_rules("OTC-004")),
    Check("OTC-005", "Each tool has a semantic version.", _check_rules("OTC-005")),
    Check("OTC-007", "Each tool has an input schema.", _check_rules("OTC-007")),
    Check("OTC-008", "The input schema of the RFC has parameters.", _check_rules("OTC-008")),
    Check("OTC-009", "No schema refers to another or defines one.", _check_rules("OTC-009")),
    Check("OTC-010", "Each parameter is a JSON Schema.", _check_rules("OTC-010")),
    Check("OTC-011", "Each parameter has a description.", _check_rules("OTC-011")),
    Check("OTC-012", "Each tool has an output schema, or null.", _check_rules("OTC-012")),
    Check(
        "OTC-016",
        "Requirements refer to providers and secrets by id.",
        _check_rules("OTC-013", "OTC-016", "OTC-017"),
    ),
    Check("OXP-005", "The items of OXP have only the members that OXP defines.", _check_rules("OXP-005")),
    Check("A-51", "The versions of a tool are in ascending order.", _check_version_order),
)
