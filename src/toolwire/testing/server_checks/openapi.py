"""The checks of OpenAPI with x-llm: llm.json, the OpenAPI document and its x-llm members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import urljoin, urlsplit

from toolwire.core.json_pointer import build_pointer
from toolwire.core.model import Json
from toolwire.core.url_origin import get_origin, has_same_origin
from toolwire.framing.jsontext import describe_type, get_object
from toolwire.framing.xllm_faults import XllmFault, check_operation, check_root

from .check import Check, CheckFunction, Skip
from .probe import ProbeAnswer, ServerProbe

_LLM: Final = "/.well-known/llm.json"
_DOCUMENT: Final = "/.well-known/openapi.json"
_METHODS: Final = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})


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
    root = _get_root_policy(probe)
    missing = [name for name in ("version", "name", "description") if name not in root]
    return f"the root x-llm has no {missing[0]}" if missing else _find_error(check_root(dict(root)))


def _list_operations(probe: ServerProbe) -> Iterator[tuple[str, Mapping[str, Json]]]:
    for path, item in get_object(_get_document(probe).members, "paths").items():
        for method, operation in (item if isinstance(item, dict) else {}).items():
            if method in _METHODS and isinstance(operation, dict):
                yield f"{method.upper()} {path}", operation


def _check_operations(probe: ServerProbe) -> str | Skip | None:
    policies = {name: operation["x-llm"] for name, operation in _list_operations(probe) if "x-llm" in operation}
    if not policies:
        return Skip("no operation has x-llm")
    errors = (_find_error(check_operation(policy), name) for name, policy in policies.items())
    return next(filter(None, errors), None)


def _find_error(faults: Iterable[XllmFault], name: str = "the root") -> str | None:
    """Return the first error among ``faults``, and where it is."""
    error = next((one for one in faults if one.severity == "error"), None)
    return None if error is None else f"{name}: x-llm{build_pointer(error.path)}: {error.message}"


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
    Check("XL-025", "The members of the root x-llm are valid.", _check_root_members),
    Check("XL-034", "At least one operation has x-llm.", _check_exposed),
    Check("XL-031", "The members of the x-llm of each operation are valid.", _check_operations),
    Check("XL-028", "Each operation with x-llm has a unique operationId.", _check_ids),
)
