"""Check an Arazzo document, alone or with the OpenAPI documents whose operations its steps call."""
# OQ-2

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from toolwire.core.json_pointer import MISSING, parse_pointer
from toolwire.core.model import Json, Problem
from toolwire.core.selection import Selection
from toolwire.core.url_origin import get_origin
from toolwire.framing import yamltext
from toolwire.framing.report import Path, PathFault
from toolwire.framing.text_faults import Fault, build_yaml_fault, find_faults, place_faults

from .document import arazzo, loading, swagger_20
from .document.arazzo import FindOperation, StepOperation
from .document.consent_policy import get_extension
from .recipes import find_operation
from .tools import operations
from .tools.operation_tool import NamedOperation

_RULE: Final = "OQ-2"
_EVERY: Final = Selection(include="all")
# RFC 6761, 6.4: a name that never resolves. Relative URLs need a base, and nothing is fetched.
_URL: Final = "https://document.invalid/workflows.json"


def check(text: bytes, name: str = "", documents: Iterable[Json] = ()) -> tuple[Fault, ...]:
    """Return what is wrong with ``text``, from the file ``name``, as an Arazzo document, in its order.

    Its steps are compared with the operations of ``documents``, which are OpenAPI; without any, they are not compared.
    """
    given = [_list_operations(document) for document in documents]
    known = {reference: one for listed in given for reference, one in listed.items()}
    find = partial(find_operation, known) if given else _accept_operation
    reading = None if len(text) > arazzo.MAX_BYTES else loading.read_data(text, name=name)
    if reading is None or reading.written_as == "JSON":
        return find_faults(text, partial(_find_faults, find), not_json=_RULE, most=arazzo.MAX_BYTES)
    if isinstance(reading.data, Problem):
        return (build_yaml_fault(text, _RULE),)
    return place_faults(_find_faults(find, reading.data), lambda pointers: yamltext.locate(text, pointers))


def _find_faults(find: FindOperation, data: Json) -> Sequence[PathFault]:
    return [
        PathFault(_build_path(note.pointer), "error", _RULE, str(note), is_structural=True)
        for note in arazzo.read_recipes(data, _choose_url(data), find).notes
    ]


def _choose_url(data: Json) -> str:
    """Return the URL of the first source description that is whole: the site that the document is about."""
    sources = data.get("sourceDescriptions") if isinstance(data, dict) else None
    urls = [one.get("url") for one in sources if isinstance(one, dict)] if isinstance(sources, list) else []
    return next((url for url in urls if isinstance(url, str) and get_origin(url)), _URL)


def _build_path(pointer: str) -> Path:
    path: Path = None
    for step in parse_pointer(pointer):
        path = (path, step)
    return path


def _list_operations(document: Json) -> Mapping[str, NamedOperation]:
    """Return the tools of an OpenAPI document by operationId and pointer; those that a client gets from it."""
    if not isinstance(document, dict) or operations.explain_unfit(document, _EVERY):
        return {}
    if swagger_20.is_swagger(document):
        document, _ = swagger_20.upgrade(document, _URL)
    # Where an author offers operations one by one, a step of another operation is no tool of any client.
    include = "declared" if isinstance(get_extension(document), dict) else "all"
    return operations.read_operations(document, _URL, Selection(include=include)).memo.references


def _accept_operation(reference: str) -> StepOperation:
    return StepOperation(reference, _echo_arguments)


def _echo_arguments(parameters: Mapping[str, Json], body: Json) -> Mapping[str, Json]:
    return parameters if body is MISSING else {**parameters, "body": body}
