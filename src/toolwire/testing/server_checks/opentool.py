"""The checks of OpenTool: its document, and JSON-RPC over HTTP under ``/opentool``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.catalog import VERSION
from toolwire.core.model import Json
from toolwire.framing.jsontext import describe_type
from toolwire.protocols.opentool.validator import Fault, check

from .check import Check, CheckFunction, Skip
from .probe import ProbeAnswer, ServerProbe

UNKNOWN_FUNCTION: Final = "toolwire_no_such_function"
_PARAMETER: Final = ("OT-015", "OT-016", "OT-017", "OT-018")
_SCHEMA: Final = ("OT-022", "OT-023", "OT-024", "OT-025", "OT-026", "OT-027")
_CALL: Final = "/opentool/call"
_MALFORMED: Final = (
    ("not JSON", b"{not json"),
    ("NaN", b'{"jsonrpc": "2.0", "id": "1", "method": "x", "params": {"a": NaN}}'),
    ("bytes that are not UTF-8", b'{"jsonrpc": "2.0", "id": "1", "method": "\xff"}'),
    ("an empty body", b""),
    ("200,000 brackets", b"[" * 200_000),
)


def _check_version_status(probe: ServerProbe) -> str | None:
    answer = probe.get("/opentool/version")
    return None if answer.status == 200 else f"GET /opentool/version: {answer}"


def _check_version_format(probe: ServerProbe) -> str | None:
    version = probe.get("/opentool/version").members.get("version")
    good = isinstance(version, str) and VERSION.fullmatch(version)
    return None if good else f'"version" is {version!r}'


def _check_load(probe: ServerProbe) -> str | None:
    answer = probe.get("/opentool/load")
    return None if answer.status == 200 and isinstance(answer.data, dict) else f"GET /opentool/load: {answer}"


def _list_faults(probe: ServerProbe) -> tuple[Fault, ...]:
    found: tuple[Fault, ...] = probe.compute_once("faults", lambda: check(probe.get("/opentool/load").response.body))
    return found


def _check_rules(*rules: str) -> CheckFunction:
    """Return a check that the document breaks none of ``rules``."""

    def check(probe: ServerProbe) -> str | Skip | None:
        if probe.get("/opentool/load").data == {}:
            return Skip("it has no document")
        faults = [fault for fault in _list_faults(probe) if fault.severity == "error" and fault.rule in rules]
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return f"{faults[0].pointer}: {faults[0].message}{more}" if faults else None

    return check


def _request(probe: ServerProbe, **members: Json) -> ProbeAnswer:
    """Send a request. A member with the value ``...`` is left out."""
    request = {"jsonrpc": "2.0", "id": "1", "method": UNKNOWN_FUNCTION, "params": {}, **members}
    return probe.post(_CALL, {name: value for name, value in request.items() if value is not ...})


def _get_error(answer: ProbeAnswer) -> Mapping[str, Json]:
    error = answer.members.get("error")
    return error if isinstance(error, dict) else {}


def _check_unknown(probe: ServerProbe) -> str | None:
    answer = _request(probe)
    return None if answer.status == 200 and answer.members else f"a call of an unknown function: {answer}"


def _check_reply_version(probe: ServerProbe) -> str | None:
    value = _request(probe).members.get("jsonrpc")
    return None if value == "2.0" else f'"jsonrpc" is {value!r}'


def _check_reply_id(probe: ServerProbe) -> str | None:
    for id_ in ("a-1", 7):
        value = _request(probe, id=id_).members.get("id")
        if value != id_:
            return f"the id {id_!r} is returned as {value!r}"
    return None


def _check_error_form(probe: ServerProbe) -> str | None:
    answer = _request(probe)
    error = _get_error(answer)
    if type(error.get("code")) is not int or not isinstance(error.get("message"), str):
        return f'there is no "error" with a "code" and a "message": {answer}'
    return None if answer.members.get("result") == {} else f'"result" is not an empty object: {answer}'


def _check_unknown_code(probe: ServerProbe) -> str | None:
    code = _get_error(_request(probe)).get("code")
    return None if code in (-32601, 404, 405) else f"an unknown function has the code {code!r}"


def _check_refusal(what: str, **members: Json) -> CheckFunction:
    """Return a check that a request with these invalid members is refused."""

    def check(probe: ServerProbe) -> str | None:
        answer = _request(probe, **members)
        return None if answer.status == 400 or _get_error(answer).get("code") == -32600 else f"{what}: {answer}"

    return check


def _check_missing_version(probe: ServerProbe) -> str | Skip | None:
    answer, usual = _request(probe, jsonrpc=...), _request(probe)
    if answer.status == 400 or _get_error(answer).get("code") == -32600:
        return None
    if _get_error(answer).get("code") == _get_error(usual).get("code"):
        return Skip('it accepts a request without "jsonrpc", which other servers refuse')
    return f"without jsonrpc: {answer}"


def _check_missing_params(probe: ServerProbe) -> str | None:
    answer, usual = _request(probe, params=...), _request(probe)
    same = _get_error(answer).get("code") == _get_error(usual).get("code")
    return None if same else f"without params: {answer}; with: {usual}"


def _check_params_type(probe: ServerProbe) -> str | None:
    answer = _call_tool(probe, params=[1])
    return None if _get_error(answer).get("code") in (-32602, -32600, 400) else f"params that are a list: {answer}"


def _check_batch(probe: ServerProbe) -> str | None:
    answer = probe.post(_CALL, [{"jsonrpc": "2.0", "id": "1", "method": UNKNOWN_FUNCTION}])
    return None if answer.status < 500 and not isinstance(answer.data, list) else f"a batch: {answer}"


def _check_malformed_bodies(probe: ServerProbe) -> str | None:
    for what, body in _MALFORMED:
        answer = probe.post(_CALL, body)
        if not 400 <= answer.status < 500 or answer.data is None:
            return f"{what}: {answer}"
    return None


def _check_content_type(probe: ServerProbe) -> str | None:
    answer = probe.post(_CALL, b'{"jsonrpc": "2.0", "id": "1", "method": "x"}', headers={"content-type": "text/plain"})
    return None if answer.status in (400, 415) else f"text/plain: {answer}"


def _check_key(probe: ServerProbe) -> str | None:
    answer = probe.post(_CALL, {"jsonrpc": "2.0", "id": "1", "method": UNKNOWN_FUNCTION}, keyed=False)
    return None if answer.status == 401 else f"a call without a key: {answer}"


def _check_stop(probe: ServerProbe) -> str | None:
    answer = probe.send("GET", "/opentool/stop")
    return None if answer.status in (401, 403, 404, 405) else f"GET /opentool/stop: {answer}"


def _call_tool(probe: ServerProbe, **members: Json) -> ProbeAnswer:
    tool, arguments = probe.call or (UNKNOWN_FUNCTION, {})
    return _request(probe, **{"method": tool, "params": dict(arguments), **members})


def _check_call(probe: ServerProbe) -> str | None:
    answer = _call_tool(probe)
    if answer.status != 200 or answer.members.get("error") is not None:
        return str(answer)
    return None if answer.members.get("id") == "1" else f"the id is not returned: {answer}"


def _check_result_type(probe: ServerProbe) -> str | None:
    result = _call_tool(probe).members.get("result")
    return None if isinstance(result, dict) else f'"result" is {describe_type(result)}'


def _check_null_error(probe: ServerProbe) -> str | None:
    answer = _call_tool(probe)
    return None if "error" in answer.members and answer.members["error"] is None else f'"error" is not null: {answer}'


def _check_sdk_version(probe: ServerProbe) -> str | None:
    answer = _call_tool(probe, jsonrpc="2.0.0")
    return None if answer.members.get("error") is None and answer.status == 200 else f'"jsonrpc": "2.0.0": {answer}'


CHECKS: Final = (
    Check("OTRPC-002", "GET /opentool/version answers 200.", _check_version_status),
    Check("OTRPC-003", "The version is a semantic version.", _check_version_format),
    Check("OTRPC-013", "GET /opentool/load answers 200 with an object.", _check_load),
    Check("OT-001", "The document states the version of OpenTool.", _check_rules("OT-001")),
    Check("OT-002", "The document has an info object.", _check_rules("OT-002", "OT-006", "OT-007", "OT-008")),
    Check("OT-004", "The document lists its functions.", _check_rules("OT-004")),
    Check("OT-009", "A server in the document has a URL.", _check_rules("OT-003", "OT-009", "OT-010")),
    Check("OT-011", "Each function has a name of 1 to 64 characters.", _check_rules("OT-011")),
    Check("OT-012", "Each function has a description.", _check_rules("OT-012")),
    Check("OT-013", "Each function has a list of parameters.", _check_rules("OT-013")),
    Check("OT-015", 'Each parameter has a name, a schema and "required".', _check_rules(*_PARAMETER)),
    Check("OT-019", "Each return has a name and a schema.", _check_rules("OT-014", "OT-019", "OT-020", "OT-021")),
    Check("OT-022", "Each schema has one of the six types, and the members its type requires.", _check_rules(*_SCHEMA)),
    Check("OT-029", "The document is JSON in UTF-8.", _check_rules("OT-029", "D-16")),
    Check("OTRPC-004", "A call of an unknown function gets 200 with a JSON-RPC response.", _check_unknown),
    Check("OTRPC-012", 'A response has "jsonrpc": "2.0".', _check_reply_version),
    Check("OTRPC-008", "A response has the id of its request, of the same type.", _check_reply_id),
    Check("OTRPC-010", "A failed call has an empty result, and an error with a code and a message.", _check_error_form),
    Check("A-13", "An unknown function returns the code -32601, 404 or 405.", _check_unknown_code),
    Check("OTRPC-005", "Another version of JSON-RPC is refused.", _check_refusal('"jsonrpc": "1.0"', jsonrpc="1.0")),
    Check("OTRPC-006", "A request without a method is refused.", _check_refusal("no method", method=...)),
    Check("A-16", "A request without an id is refused.", _check_refusal("no id", id=...)),
    Check("SE-03", "A request with the id null is refused.", _check_refusal('"id": null', id=None)),
    Check("SE-03", "A request without a version of JSON-RPC is refused.", _check_missing_version),
    Check("OTRPC-007", "A request without params is accepted.", _check_missing_params),
    Check("A-17", "A batch is refused.", _check_batch),
    Check("S-5", "A body that is not JSON gets 4xx with a JSON body.", _check_malformed_bodies),
    Check("A-29", "A body whose content type is not JSON is refused.", _check_content_type),
    Check("OTRPC-029", "A call requires the key.", _check_key, needs_key=True),
    Check("S-17", "GET /opentool/stop does not stop the server.", _check_stop),
    Check("OTRPC-009", "The call succeeds, with the id of its request.", _check_call, needs_call=True),
    Check("OTRPC-011", "The result of the call is an object.", _check_result_type, needs_call=True),
    Check("A-12", "The error of the call is null.", _check_null_error, needs_call=True),
    Check("A-19", "Params that are not an object are refused.", _check_params_type, needs_call=True),
    Check("A-18", 'A request with "jsonrpc": "2.0.0" is accepted.', _check_sdk_version, needs_call=True),
)
