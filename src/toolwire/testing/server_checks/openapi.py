"""The checks of OpenAPI with x-llm: llm.json, the OpenAPI document and its x-llm members."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import urljoin, urlsplit

from toolwire.core.model import Json
from toolwire.core.url_origin import get_origin, has_same_origin
from toolwire.framing.jsontext import describe_type, get_object

from .check import Check, CheckFunction, Skip
from .probe import ProbeAnswer, ServerProbe

_LLM: Final = "/.well-known/llm.json"
_DOCUMENT: Final = "/.well-known/openapi.json"
_METHODS: Final = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})
_APPROVALS: Final = ("auto", "per-call", "deny")
_COSTS: Final = ("free", "credits", "paid")


def _get_llm(probe: ServerProbe) -> ProbeAnswer:
    return probe.get(_LLM, keyed=False)


def _check_llm(probe: ServerProbe) -> str | None:
    answer = _get_llm(probe)
    return None if answer.status == 200 and answer.members else f"GET {_LLM}: {answer}"


def _require_llm(check: CheckFunction) -> CheckFunction:
    return lambda probe: check(probe) if _get_llm(probe).status == 200 else Skip("it has no llm.json")


def _check_head(probe: ServerProbe) -> str | None:
    answer = probe.send("HEAD", _LLM)
    return None if answer.status == 200 else f"HEAD {_LLM}: {answer}"


def _check_etag(probe: ServerProbe) -> str | None:
    tag = _get_llm(probe).get_header("etag")
    if not tag:
        return "there is no ETag"
    answer = probe.get(_LLM, keyed=False, headers={"if-none-match": tag})
    return None if answer.status == 304 else f"with its own ETag: {answer.status}"


def _check_cache_control(probe: ServerProbe) -> str | None:
    return None if _get_llm(probe).get_header("cache-control") else "there is no Cache-Control"


def _check_cors(probe: ServerProbe) -> str | None:
    value = _get_llm(probe).get_header("access-control-allow-origin")
    return None if value == "*" else f"Access-Control-Allow-Origin is {value!r}"


def _check_document_url(probe: ServerProbe) -> str | None:
    value = _get_llm(probe).members.get("openapi")
    return None if isinstance(value, str) and value else f'"openapi" is {value!r}'


def _check_auth(probe: ServerProbe) -> str | None:
    value = _get_llm(probe).members.get("auth")
    return None if isinstance(value, str | dict | None) else f'"auth" is {describe_type(value)}'


def _find_document_path(probe: ServerProbe) -> str:
    """Return the path of the document on the server."""
    value = _get_llm(probe).members.get("openapi")
    if not isinstance(value, str):
        return _DOCUMENT
    found = urlsplit(urljoin(probe.base + _LLM, value))
    return found.path + (f"?{found.query}" if found.query else "")


def _get_document(probe: ServerProbe) -> ProbeAnswer:
    base = urlsplit(probe.base).path
    return probe.get(_find_document_path(probe).removeprefix(base), keyed=False)


def _check_document(probe: ServerProbe) -> str | None:
    answer = _get_document(probe)
    return None if answer.status == 200 and answer.members else f"GET {_find_document_path(probe)}: {answer}"


def _check_origin(probe: ServerProbe) -> str | None:
    url = urljoin(probe.base + _LLM, str(_get_llm(probe).members.get("openapi", "")))
    return None if has_same_origin(url, probe.base) else f"the document is at {get_origin(url)}"


def _check_same_bytes(probe: ServerProbe) -> str | Skip | None:
    other = probe.get(_DOCUMENT, keyed=False)
    if other.status == 404:
        return Skip(f"it has no {_DOCUMENT}")
    return None if other.response.body == _get_document(probe).response.body else f"{_DOCUMENT} is another document"


def _check_openapi_version(probe: ServerProbe) -> str | None:
    value = _get_document(probe).members.get("openapi")
    return None if isinstance(value, str) and value.startswith("3.") else f'"openapi" is {value!r}'


def _get_root_policy(probe: ServerProbe) -> Mapping[str, Json]:
    return get_object(_get_document(probe).members, "x-llm")


def _check_root(probe: ServerProbe) -> str | None:
    return None if _get_root_policy(probe) else "there is no x-llm object at the root of the document"


def _check_root_members(probe: ServerProbe) -> str | None:
    for name in ("version", "name", "description"):
        if not isinstance(_get_root_policy(probe).get(name), str):
            return f'"{name}" of the root x-llm is {describe_type(_get_root_policy(probe).get(name))}'
    return None


def _check_default_approval(probe: ServerProbe) -> str | None:
    value = _get_root_policy(probe).get("defaultApproval", "per-call")
    return None if value in ("auto", "per-call") else f'"defaultApproval" is {value!r}'


def _list_operations(probe: ServerProbe) -> Iterator[tuple[str, Mapping[str, Json]]]:
    for path, item in get_object(_get_document(probe).members, "paths").items():
        for method, operation in (item if isinstance(item, dict) else {}).items():
            if method in _METHODS and isinstance(operation, dict):
                yield f"{method.upper()} {path}", operation


def _check_member(member: str) -> CheckFunction:
    """Return a check that ``member`` of the x-llm of each operation has a valid value."""

    def check(probe: ServerProbe) -> str | Skip | None:
        policies = [(name, operation["x-llm"]) for name, operation in _list_operations(probe) if "x-llm" in operation]
        if not policies:
            return Skip("no operation has x-llm")
        for name, policy in policies:
            if isinstance(policy, bool):
                continue
            if not isinstance(policy, dict):
                return f"{name}: x-llm is {describe_type(policy)}"
            if member in policy and not _VALIDATORS[member](policy[member]):
                return f'{name}: "{member}" is {policy[member]!r}'
        return None

    return check


def _is_rate(value: Json) -> bool:
    return isinstance(value, dict) and type(value.get("max")) is int and isinstance(value.get("window"), str)


_VALIDATORS: Final[Mapping[str, Callable[[Json], bool]]] = {
    "enabled": lambda value: isinstance(value, bool),
    "approval": lambda value: value in _APPROVALS,
    "blanketApprovalAllowed": lambda value: isinstance(value, bool),
    "destructive": lambda value: isinstance(value, bool),
    "rateLimit": _is_rate,
    "hint": lambda value: isinstance(value, str),
    "cost": lambda value: value in _COSTS,
}


def _check_exposed(probe: ServerProbe) -> str | None:
    return None if any("x-llm" in one for _, one in _list_operations(probe)) else "no operation has x-llm"


def _check_ids(probe: ServerProbe) -> str | None:
    ids = [one.get("operationId") for _, one in _list_operations(probe) if "x-llm" in one]
    if not all(isinstance(one, str) and one for one in ids):
        return "an operation with x-llm has no operationId"
    return None if len(set(ids)) == len(ids) else "two operations have the same operationId"


CHECKS: Final = (
    Check("XL-001", "GET /.well-known/llm.json answers 200 with an object, without credentials.", _check_llm),
    Check("XL-018", "HEAD of llm.json gets 200.", _require_llm(_check_head)),
    Check("XL-018", "llm.json has an ETag. A client that sends it gets 304.", _require_llm(_check_etag)),
    Check("XL-018", "llm.json has Cache-Control.", _require_llm(_check_cache_control)),
    Check("XL-018", "Pages of any origin can read llm.json.", _require_llm(_check_cors)),
    Check("XL-020", "llm.json has the URL of the document.", _require_llm(_check_document_url)),
    Check("XL-021", "auth in llm.json is a string or an object.", _require_llm(_check_auth)),
    Check("XL-015", "The document has the same origin as llm.json.", _require_llm(_check_origin)),
    Check("XL-014", "The document needs no credentials.", _check_document),
    Check("XL-019", "The well-known document is the same as the one that llm.json names.", _check_same_bytes),
    Check("XL-009", "The document is OpenAPI 3.", _check_openapi_version),
    Check("XL-004", "The document has x-llm at its root.", _check_root),
    Check("XL-025", "The root x-llm has a version, a name and a description.", _check_root_members),
    Check("XL-027", "The default approval is auto or per-call.", _check_default_approval),
    Check("XL-034", "At least one operation has x-llm.", _check_exposed),
    Check("XL-031", "enabled is true or false.", _check_member("enabled")),
    Check("XL-031", "approval is auto, per-call or deny.", _check_member("approval")),
    Check("XL-031", "blanketApprovalAllowed is true or false.", _check_member("blanketApprovalAllowed")),
    Check("XL-031", "destructive is true or false.", _check_member("destructive")),
    Check("XL-031", "rateLimit has max and window.", _check_member("rateLimit")),
    Check("XL-031", "hint is a string.", _check_member("hint")),
    Check("XL-031", "cost is free, credits or paid.", _check_member("cost")),
    Check("XL-028", "Each operation with x-llm has a unique operationId.", _check_ids),
)
