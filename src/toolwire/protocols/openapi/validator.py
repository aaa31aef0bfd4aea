"""Check OpenAPI documents with x-llm, and llm.json: report faults, and advice for use by models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from toolwire.core.json_pointer import PathStep, parse_pointer
from toolwire.core.model import Approval, Json, Problem
from toolwire.core.selection import DEFAULT_SELECTION, Selection
from toolwire.core.write_names import is_named_like_write
from toolwire.framing import xllm, yamltext
from toolwire.framing.jsontext import describe_type
from toolwire.framing.null_members import remove_nulls
from toolwire.framing.report import MAX_FAULTS, Path, PathFault, warn_of_nulls
from toolwire.framing.text_faults import Fault, build_yaml_fault, find_faults, place_faults
from toolwire.framing.xllm_faults import XllmFault, check_llm_json, check_operation, check_root
from toolwire.validation.patterns import is_linear_pattern

from .document import loading, swagger_20
from .document.consent_policy import SAFE_METHODS, SitePolicy, get_extension, read_operation, read_site
from .document.operation_list import list_operations
from .document.references import References, Unusable
from .document.servers import list_unfilled_variables
from .document.swagger_pointers import locate_original
from .tools import operations

MAX_TOOLS: Final = 128
MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest document that is read."""

_EVERY: Final = Selection(include="all")
# RFC 6761, 6.4: a name that never resolves. Relative URLs need a base, and nothing is fetched.
_URL: Final = "https://document.invalid/openapi.json"
_VAGUE: Final = re.compile(
    r"(?:get|post|put|patch|delete|do|run|call|handle|handler|execute|process|action|api|endpoint|index|root|main|test"
    r"|data|item|items|list|create|update|read|op|operation|function|method|request)_?\d*",
    re.IGNORECASE,
)


_DATA: Final = frozenset(("const", "default", "enum", "example", "examples", "x-llm"))
_SCHEMA_MAPS: Final = frozenset(("properties", "patternProperties", "schemas", "definitions", "$defs"))
_MAPS: Final = _SCHEMA_MAPS | {"responses", "parameters", "headers", "requestBodies", "callbacks", "pathItems", "paths"}
_FREE_NAME_MAPS: Final = _MAPS | {
    *("content", "variables", "encoding", "links", "securitySchemes", "securityDefinitions", "webhooks"),
    *("dependentSchemas", "dependentRequired", "mapping", "scopes"),
}
"""The members whose objects have names of the author's."""
_MEANINGFUL_NULLS: Final = (_DATA - {"enum"}) | {"security", "x-llm"}
"""The members whose null, or whatever is in them, says something."""
_TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")
_NUMBER: Final = ((int, float), "a number")
_KEYWORD_TYPES: Final[Mapping[str, tuple[Any, str]]] = {
    **dict.fromkeys(("required", "enum", "allOf", "anyOf", "oneOf", "prefixItems"), (list, "an array")),
    **dict.fromkeys(("properties", "patternProperties", "$defs"), (dict, "an object")),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _NUMBER),
    **dict.fromkeys(("pattern", "format", "$ref"), (str, "a string")),
}


class _Operation(NamedTuple):
    method: str
    path: str
    steps: tuple[PathStep, ...]
    node: dict[str, Any]


def check_llm(text: str | bytes) -> tuple[Fault, ...]:
    """Return everything that is wrong with ``text`` as an llm.json, in its order."""
    # XL-020..023
    return find_faults(text, lambda data: _list_faults(check_llm_json(data)), not_json="XL-020")


def check(text: str | bytes, name: str = "") -> tuple[Fault, ...]:
    """Return what is wrong with ``text``, from the file ``name``, as an OpenAPI document, and advice, in its order.

    An error is what is refused or read as its strictest; a warning is what is left out, or what makes the tools hard
    to use for a model.
    """
    # XL-025..039, XL-044, XL-070, XL-088
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return find_text_faults(raw, name, _find_faults, MAX_BYTES)


def find_text_faults(
    raw: bytes, name: str, examine: Callable[[Json], Sequence[PathFault]], most: int
) -> tuple[Fault, ...]:
    """Return all that ``examine`` finds in the data of ``raw``, JSON or YAML of at most ``most`` bytes, placed.

    ``name`` is that of the file.
    """
    # JSON has its own check with line and column; only YAML has to be read first to know that it is YAML.
    reading = None if len(raw) > most else loading.read_data(raw, name=name)
    if reading is None or reading.written_as == "JSON":
        return find_faults(raw, examine, not_json="XL-013", most=most)
    if isinstance(reading.data, Problem):
        return (build_yaml_fault(raw, "XL-013"),)
    return place_faults(examine(reading.data), lambda pointers: yamltext.locate(raw, pointers))


def _find_faults(data: Json) -> Sequence[PathFault]:
    nulls = remove_nulls(data, maps=_FREE_NAME_MAPS, values=_MEANINGFUL_NULLS, nullable=frozenset(("paths",)))
    return [*warn_of_nulls(nulls, "CV-30"), *_list_faults(_examine(data))]


def _list_faults(slips: Iterable[XllmFault]) -> Sequence[PathFault]:
    return [
        PathFault(_build_path(one.path), one.severity, one.rule, one.message, is_structural=True)
        # zip() stops at the limit, so that no further faults are searched.
        for one, _ in zip(slips, range(MAX_FAULTS), strict=False)
    ]


def _build_path(steps: Iterable[PathStep]) -> Path:
    path: Path = None
    for step in steps:
        path = (path, step)
    return path


def _examine(data: Json) -> Iterator[XllmFault]:
    if not isinstance(data, dict):
        yield XllmFault((), "error", "CV-29", "An OpenAPI document must be an object.")
        return
    if not swagger_20.is_swagger(data):
        yield from _examine_openapi(data)
        return
    upgraded, notes = swagger_20.upgrade(data)
    slips = [
        XllmFault(tuple(parse_pointer(one.pointer)), "warning", "XL-088", _start_sentence(one.text)) for one in notes
    ]
    for slip in chain(slips, _examine_openapi(upgraded)):  # what is shown is a place in the author's own file
        yield slip._replace(path=locate_original(data, upgraded, slip.path))


def _examine_openapi(data: dict[str, Any]) -> Iterator[XllmFault]:
    reason, undeclared = operations.explain_unfit(data, _EVERY), operations.explain_unfit(data)
    site = read_site(data)
    root = get_extension(data)
    if root is not None:
        key = "x-llm" if "x-llm" in data else "x-opentools"
        yield from (slip.prefix_path(key) for slip in check_root(root))
    else:
        yield XllmFault(
            (), "warning", "XL-004", "The root has no x-llm, so clients cannot find it at its conventional paths."
        )
    if reason and site.supported:
        yield XllmFault((), "error", "CV-29", f"This {reason}.")
        return
    if undeclared and not reason:
        yield XllmFault((), "warning", "XL-009", f"This {undeclared}.")
    every = list(_list_operations(data))
    ids = frozenset(one.node["operationId"] for one in every if isinstance(one.node.get("operationId"), str))
    yield from _check_repeated_ids(every)
    yield from _check_references(data)
    yield from _check_servers(data, every)
    yield from _check_misplaced(data)
    for one in every:
        yield from (slip.prefix_path(*one.steps) for slip in _check_operation(one, site, ids))
        yield from _check_unasked_write(one, site)
    # A document without any x-llm is checked as it would be used: with every operation.
    yield from _check_left_out(data, _EVERY if undeclared else DEFAULT_SELECTION) if not reason else ()


def _check_unasked_write(one: _Operation, site: SitePolicy) -> Iterator[XllmFault]:
    """Yield a warning for a read without a question that is named like a write."""
    # FU-52
    name, extension = one.node.get("operationId"), get_extension(one.node)
    if not isinstance(name, str) or not isinstance(extension, dict) or one.method.upper() not in SAFE_METHODS:
        return
    approval = xllm.read_approval(extension.get("approval", site.approval.value))
    if approval is Approval.AUTO and is_named_like_write(name):
        text = f"{name[:100]!r} is a {one.method.upper()} without a question, but its name looks like a write."
        yield XllmFault((*one.steps, "operationId"), "warning", "FU-52", text)


def _check_repeated_ids(every: Sequence[_Operation]) -> Iterator[XllmFault]:
    """Yield an error for each operationId that an operation before it has."""
    first: dict[str, _Operation] = {}
    for one in every:
        name = one.node.get("operationId")
        if isinstance(name, str) and name and first.setdefault(name, one) is not one:
            text = f"{name[:100]!r} is already the operationId of {first[name].method} {first[name].path[:200]}."
            yield XllmFault((*one.steps, "operationId"), "error", "CV-29", text)


def _check_references(data: dict[str, Any]) -> Iterator[XllmFault]:
    """Yield an error for each reference that leads nowhere in the document, and each schema that is none."""
    known = References(data)
    waiting: list[tuple[Json, tuple[PathStep, ...], bool]] = [(data, (), False)]
    while waiting:
        node, steps, is_map = waiting.pop()
        if isinstance(node, list):
            waiting.extend((item, (*steps, number), False) for number, item in enumerate(node))
        if not isinstance(node, dict):
            continue
        reference = None if is_map else node.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            try:
                known.resolve(reference)
            except Unusable as error:
                text = str(error).removeprefix("it ")
                yield XllmFault((*steps, "$ref"), "error", "CV-17", f"This {text}.")
        for name, one in node.items():
            # An extension has rules of its own, which are not ours to check.
            if not is_map and name.startswith("x-"):
                continue
            # In a map every name is the author's: a property called "items" is no keyword.
            if steps[-1] in _SCHEMA_MAPS if is_map else name in ("schema", "items", "additionalProperties"):
                yield from _check_schemas(one, (*steps, name))
            if is_map or name not in _DATA:
                waiting.append((one, (*steps, name), not is_map and name in _MAPS))


def _check_schemas(node: Json, steps: tuple[PathStep, ...]) -> Iterator[XllmFault]:
    """Yield an error for each word of a schema whose value it cannot have."""
    if not isinstance(node, dict):
        if not isinstance(node, bool):
            yield XllmFault(steps, "error", "CV-29", f"A schema must be an object, not {describe_type(node)}.")
        return
    kinds = node.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if "type" in node and kind not in _TYPES:
            yield XllmFault((*steps, "type"), "error", "CV-29", f"{str(kind)[:50]!r} is not a valid schema type.")
    for word, (expected, what) in _KEYWORD_TYPES.items():
        value = node.get(word)
        if word in node and not isinstance(value, expected):
            yield XllmFault(
                (*steps, word), "error", "CV-29", (f'"{word}" of a schema must be {what}, not {describe_type(value)}.')
            )


def _check_servers(data: dict[str, Any], every: Sequence[_Operation]) -> Iterator[XllmFault]:
    """Yield what keeps the servers of the document from being called."""
    listed = data.get("servers")
    if not listed and every and not all(one.node.get("servers") for one in every):
        text = (
            "It declares no server. Calls go to the URL that it was fetched from. From a file, they need --server URL."
        )
        yield XllmFault((), "warning", "CV-08", text)
    # O-38
    holders = (((), data), *((one.steps, one.node) for one in every))
    for steps, node in holders:
        if node.get("servers") is not None and not isinstance(node["servers"], list):
            text = f"servers is {describe_type(node['servers'])}; it must be an array of servers, and is not used."
            yield XllmFault((*steps, "servers"), "error", "CV-08", text)
    for number, one in enumerate(listed if isinstance(listed, list) else ()):
        for name in list_unfilled_variables(one):
            text = f"Its variable {name[:50]!r} has no default, so the server cannot be called."
            yield XllmFault(("servers", number), "error", "CV-08", text)


def _list_operations(data: dict[str, Any]) -> Iterator[_Operation]:
    for one in list_operations(References(data), []):
        yield _Operation(one.method, one.path, tuple(parse_pointer(one.pointer)), one.node)


def _check_operation(one: _Operation, site: SitePolicy, ids: frozenset[str]) -> Iterator[XllmFault]:
    declared = get_extension(one.node)
    if declared is None:
        return
    key = "x-llm" if "x-llm" in one.node else "x-opentools"
    if "x-llm" in one.node and "x-opentools" in one.node:
        yield XllmFault(
            ("x-opentools",), "warning", "XL-038", "An x-llm is also present and takes precedence. Remove this one."
        )
    yield from (slip.prefix_path(key) for slip in check_operation(declared))
    policy = read_operation(one.node, site, one.method)
    # Advice on the wording of a tool helps only where there is a tool.
    if not policy.exposed:
        return
    for number, condition in enumerate(policy.ask_when):
        if condition.op == "matches" and not is_linear_pattern(condition.value):
            text = (
                "The regular expression is invalid, too large, or uses lookaround. Each call with a "
                "value asks for consent."
            )
            yield XllmFault((key, "approvalWhen", number, "value"), "error", "CC-01", text)
    yield from _check_policy(one, declared if isinstance(declared, dict) else {}, policy.hint)
    following = policy.extra_members.get("next")
    for number, step in enumerate(following if isinstance(following, list) else ()):
        name = step.get("operationId") if isinstance(step, dict) else None
        if isinstance(name, str) and name and name not in ids:
            text = f"There is no operation {name[:100]!r}, so this entry is ignored."
            yield XllmFault((key, "next", number, "operationId"), "warning", "XL-075", text)


def _check_policy(one: _Operation, declared: Mapping[str, Json], hint: str) -> Iterator[XllmFault]:
    name = one.node.get("operationId")
    if not isinstance(name, str) or not name:
        yield XllmFault((), "warning", "XL-083", "It has no operationId. The tool is named after its method and path.")
    elif _VAGUE.fullmatch(name):
        text = f"{name!r} is vague. Name the action and its object, such as search_recipes."
        yield XllmFault(("operationId",), "warning", "XL-080", text)
    if not one.node.get("summary"):
        yield XllmFault(
            (),
            "warning",
            "XL-070",
            ("It has no summary. Say in one sentence what it does, so that models can choose it."),
        )
    if not hint:
        yield XllmFault((), "warning", "XL-031", "It has no hint. Say when to use it, and when not.")
    if declared.get("approval") == "auto" and one.method not in SAFE_METHODS:
        yield XllmFault(
            ("x-llm" if "x-llm" in one.node else "x-opentools", "approval"),
            "warning",
            "XL-044",
            "It changes something but declares auto. Clients will ask anyway.",
        )


def _check_misplaced(data: dict[str, Any]) -> Iterator[XllmFault]:
    """Yield a warning for each ``x-llm`` where it means nothing."""
    # XL-033
    places: list[tuple[tuple[PathStep, ...], Any]] = []
    paths, tags, components = (data.get(key) for key in ("paths", "tags", "components"))
    places += [(("paths", path), item) for path, item in paths.items()] if isinstance(paths, dict) else []
    places += [(("tags", number), tag) for number, tag in enumerate(tags)] if isinstance(tags, list) else []
    schemas = components.get("schemas") if isinstance(components, dict) else None
    if isinstance(schemas, dict):
        places += [(("components", "schemas", name), schema) for name, schema in schemas.items()]
    for steps, node in places:
        if isinstance(node, dict) and "x-llm" in node:
            yield XllmFault((*steps, "x-llm"), "warning", "XL-033", "x-llm means nothing here: say it on operations.")


def _check_left_out(data: dict[str, Any], selection: Selection) -> Iterator[XllmFault]:
    """Yield what reading the document as tools finds: operations that become none, and too many of them."""
    # XL-088
    found_tools = operations.read_operations(data, _URL, selection)
    count = len(found_tools.catalog.tools)
    if count > MAX_TOOLS:
        text = (
            f"The document declares {count:,} tools. Models choose badly among so many, and some providers "
            f"accept only {MAX_TOOLS}."
        )
        yield XllmFault(("paths",), "warning", "CV-25", text)
    for note in found_tools.memo.notes:
        # The checks above have said what is wrong with an x-llm already, with its place.
        if "x-llm" not in note.text:
            yield XllmFault(
                tuple(parse_pointer(note.pointer)), "warning", "XL-088", f"{note.text[:1].upper()}{note.text[1:]}."
            )


def _start_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
