"""The checks of OpenTools: finding llm.json and the OpenAPI document, and what its x-llm says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import urljoin, urlsplit

from toolwire.core.model import Json
from toolwire.core.url_origin import get_origin, has_same_origin
from toolwire.framing.jsontext import describe_type, get_object

from .check import Check, Look, Skip
from .probe import ProbeAnswer, ServerProbe

_LLM: Final = "/.well-known/llm.json"
_DOCUMENT: Final = "/.well-known/openapi.json"
_METHODS: Final = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})
_APPROVALS: Final = ("auto", "per-call", "deny")
_COSTS: Final = ("free", "credits", "paid")


def _llm(ask: ServerProbe) -> ProbeAnswer:
    return ask.get(_LLM, keyed=False)


def _there(ask: ServerProbe) -> str | None:
    answer = _llm(ask)
    return None if answer.status == 200 and answer.members else f"GET {_LLM}: {answer}"


def _if_there(look: Look) -> Look:
    return lambda ask: look(ask) if _llm(ask).status == 200 else Skip("it has no llm.json")


def _head(ask: ServerProbe) -> str | None:
    answer = ask.send("HEAD", _LLM)
    return None if answer.status == 200 else f"HEAD {_LLM}: {answer}"


def _etag(ask: ServerProbe) -> str | None:
    tag = _llm(ask).header("etag")
    if not tag:
        return "there is no ETag"
    answer = ask.get(_LLM, keyed=False, headers={"if-none-match": tag})
    return None if answer.status == 304 else f"with its own ETag: {answer.status}"


def _cached(ask: ServerProbe) -> str | None:
    return None if _llm(ask).header("cache-control") else "there is no Cache-Control"


def _cors(ask: ServerProbe) -> str | None:
    said = _llm(ask).header("access-control-allow-origin")
    return None if said == "*" else f"Access-Control-Allow-Origin is {said!r}"


def _names_document(ask: ServerProbe) -> str | None:
    said = _llm(ask).members.get("openapi")
    return None if isinstance(said, str) and said else f'"openapi" is {said!r}'


def _auth(ask: ServerProbe) -> str | None:
    said = _llm(ask).members.get("auth")
    return None if isinstance(said, str | dict | None) else f'"auth" is {describe_type(said)}'


def _address(ask: ServerProbe) -> str:
    """Return the document's path, from the root of the server."""
    said = _llm(ask).members.get("openapi")
    if not isinstance(said, str):
        return _DOCUMENT
    found = urlsplit(urljoin(ask.base + _LLM, said))
    return found.path + (f"?{found.query}" if found.query else "")


def _document(ask: ServerProbe) -> ProbeAnswer:
    base = urlsplit(ask.base).path
    return ask.get(_address(ask).removeprefix(base), keyed=False)


def _document_there(ask: ServerProbe) -> str | None:
    answer = _document(ask)
    return None if answer.status == 200 and answer.members else f"GET {_address(ask)}: {answer}"


def _same_origin(ask: ServerProbe) -> str | None:
    url = urljoin(ask.base + _LLM, str(_llm(ask).members.get("openapi", "")))
    return None if has_same_origin(url, ask.base) else f"the document is at {get_origin(url)}"


def _same_bytes(ask: ServerProbe) -> str | Skip | None:
    other = ask.get(_DOCUMENT, keyed=False)
    if other.status == 404:
        return Skip(f"it has no {_DOCUMENT}")
    return None if other.response.body == _document(ask).response.body else f"{_DOCUMENT} has other bytes"


def _is_openapi(ask: ServerProbe) -> str | None:
    said = _document(ask).members.get("openapi")
    return None if isinstance(said, str) and said.startswith("3.") else f'"openapi" is {said!r}'


def _root(ask: ServerProbe) -> Mapping[str, Json]:
    return get_object(_document(ask).members, "x-llm")


def _has_root(ask: ServerProbe) -> str | None:
    return None if _root(ask) else "there is no x-llm object at the root of the document"


def _root_members(ask: ServerProbe) -> str | None:
    for name in ("version", "name", "description"):
        if not isinstance(_root(ask).get(name), str):
            return f'"{name}" of the root x-llm is {describe_type(_root(ask).get(name))}'
    return None


def _default_approval(ask: ServerProbe) -> str | None:
    said = _root(ask).get("defaultApproval", "per-call")
    return None if said in ("auto", "per-call") else f'"defaultApproval" is {said!r}'


def _operations(ask: ServerProbe) -> Iterator[tuple[str, Mapping[str, Json]]]:
    for path, item in get_object(_document(ask).members, "paths").items():
        for method, operation in (item if isinstance(item, dict) else {}).items():
            if method in _METHODS and isinstance(operation, dict):
                yield f"{method.upper()} {path}", operation


def _each(problem_of: str) -> Look:
    """Look at the x-llm of each operation: one member of it, by what it may be."""

    def look(ask: ServerProbe) -> str | Skip | None:
        policies = [(name, operation["x-llm"]) for name, operation in _operations(ask) if "x-llm" in operation]
        if not policies:
            return Skip("no operation has x-llm")
        for name, policy in policies:
            if isinstance(policy, bool):
                continue
            if not isinstance(policy, dict):
                return f"{name}: x-llm is {describe_type(policy)}"
            if problem_of in policy and not _RIGHT[problem_of](policy[problem_of]):
                return f'{name}: "{problem_of}" is {policy[problem_of]!r}'
        return None

    return look


def _is_rate(value: Json) -> bool:
    return isinstance(value, dict) and type(value.get("max")) is int and isinstance(value.get("window"), str)


_RIGHT: Final[Mapping[str, Callable[[Json], bool]]] = {
    "enabled": lambda value: isinstance(value, bool),
    "approval": lambda value: value in _APPROVALS,
    "blanketApprovalAllowed": lambda value: isinstance(value, bool),
    "destructive": lambda value: isinstance(value, bool),
    "rateLimit": _is_rate,
    "hint": lambda value: isinstance(value, str),
    "cost": lambda value: value in _COSTS,
}


def _exposes(ask: ServerProbe) -> str | None:
    return None if any("x-llm" in one for _, one in _operations(ask)) else "no operation has x-llm"


def _has_ids(ask: ServerProbe) -> str | None:
    ids = [one.get("operationId") for _, one in _operations(ask) if "x-llm" in one]
    if not all(isinstance(one, str) and one for one in ids):
        return "an operation with x-llm has no operationId"
    return None if len(set(ids)) == len(ids) else "two operations have one operationId"


CHECKS: Final = (
    Check("XL-001", "GET /.well-known/llm.json answers 200 with an object, without credentials.", _there),
    Check("XL-018", "HEAD is answered as GET is.", _if_there(_head)),
    Check("XL-018", "llm.json has an ETag, and 304 for who has it.", _if_there(_etag)),
    Check("XL-018", "llm.json says how long it may be kept.", _if_there(_cached)),
    Check("XL-018", "llm.json may be read from any page.", _if_there(_cors)),
    Check("XL-020", "llm.json names the document.", _if_there(_names_document)),
    Check("XL-021", "auth in llm.json is a word or an object.", _if_there(_auth)),
    Check("XL-015", "The document is on the origin of llm.json.", _if_there(_same_origin)),
    Check("XL-014", "The document answers 200, without credentials.", _document_there),
    Check("XL-019", "The well-known document has the same bytes as the one that is named.", _same_bytes),
    Check("XL-009", "The document is OpenAPI 3.", _is_openapi),
    Check("XL-004", "The document has x-llm at its root.", _has_root),
    Check("XL-025", "The root x-llm has a version, a name and a description.", _root_members),
    Check("XL-027", "The default approval is auto or per-call.", _default_approval),
    Check("XL-034", "An operation is exposed by x-llm.", _exposes),
    Check("XL-031", "enabled is true or false.", _each("enabled")),
    Check("XL-031", "approval is auto, per-call or deny.", _each("approval")),
    Check("XL-031", "blanketApprovalAllowed is true or false.", _each("blanketApprovalAllowed")),
    Check("XL-031", "destructive is true or false.", _each("destructive")),
    Check("XL-031", "rateLimit has max and window.", _each("rateLimit")),
    Check("XL-031", "hint is a text.", _each("hint")),
    Check("XL-031", "cost is free, credits or paid.", _each("cost")),
    Check("XL-028", "Each operation that is exposed has its own operationId.", _has_ids),
)
