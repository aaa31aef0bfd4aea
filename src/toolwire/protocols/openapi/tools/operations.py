"""Read an OpenAPI document as tools: each offered operation with its name, schemas, policy and plan.

Rules:
- One bad operation costs one tool and adds one finding; operations = tools + operations counted in findings.
- The same document gives the same tools; the order of members has no effect.
- Only operations whose ``x-llm`` offers them become tools, unless the user selects all.
- Names, policies and parameters are read at once, schemas and plans at their first use.
"""
# CV-30, XL-088, XL-087, XL-034, CV-25

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.interpreter import pause_collection
from toolwire.core.lazy_mapping import LazyMapping
from toolwire.core.model import Approval, Json, Tool
from toolwire.core.selection import DEFAULT_SELECTION, Selection
from toolwire.core.url_origin import get_origin
from toolwire.framing.jsontext import get_list, list_texts
from toolwire.protocols.openapi.document import identity, swagger_20
from toolwire.protocols.openapi.document.consent_policy import (
    SAFE_METHODS,
    SitePolicy,
    get_extension,
    read_operation,
    read_site,
)
from toolwire.protocols.openapi.document.descriptions import clean_text, describe_operation
from toolwire.protocols.openapi.document.findings import SHOWN, Note
from toolwire.protocols.openapi.document.hidden_text import HiddenTexts
from toolwire.protocols.openapi.document.identity import Identity
from toolwire.protocols.openapi.document.operation_list import Operation, list_operations
from toolwire.protocols.openapi.document.paths import ACCEPT_QUERY, NAME
from toolwire.protocols.openapi.document.references import References, Unusable
from toolwire.protocols.openapi.request.parameter_styles import FORM
from toolwire.protocols.openapi.request.plan import Plan

from .naming import OperationName, choose_tool_names
from .operation_tool import NamedOperation, OperationTool, Plans, ToolSource
from .parameter_arguments import find_override

_IDEMPOTENT_METHODS = frozenset(("PUT", "DELETE"))
_VERSION = re.compile(r"3\.\d{1,3}(\..*)?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationState:
    """The state of a read document: the plan of each tool by id, the number of operations, and every finding.

    ``references`` has each tool by its operationId and by its pointer. ``takes_query``: where the document has GET, the
    server takes QUERY too, with the query as a form in the body. ``notes`` grow while schemas are converted;
    ``list_findings`` converts all of them.
    """

    plans: Mapping[str, Plan]
    notes: list[Note] = field(default_factory=list)
    operations: int = 0
    tags: Mapping[str, int] = field(default_factory=dict)
    schemes: Mapping[str, Json] = field(default_factory=dict)
    references: Mapping[str, NamedOperation] = field(default_factory=dict, repr=False, compare=False)
    takes_query: bool = False

    @property
    def findings(self) -> tuple[str, ...]:
        """The findings so far: what was left out or changed, and why."""
        return tuple(map(str, self.notes))


class OperationToolSet(NamedTuple):
    """The tools of a document, and the state with their plans."""

    catalog: Catalog
    memo: OperationState


def explain_unfit(document: dict[str, Any], selection: Selection = DEFAULT_SELECTION) -> str:
    """Return why ``document`` cannot be read, as the rest of a sentence, or ``""``."""
    return find_misfit(document, selection).text


class Misfit(NamedTuple):
    """Why a document is not read, as the rest of a sentence, and in one word; both are ``""`` where it is read."""

    text: str = ""
    reason: str = ""


def find_misfit(
    document: dict[str, Any], selection: Selection = DEFAULT_SELECTION, site: SitePolicy | None = None
) -> Misfit:
    """Return why ``document`` cannot be read; ``site`` is its policy, if known."""
    # XL-009, XL-028, CV-29
    version = document.get("openapi")
    if swagger_20.is_swagger(document):
        version = "3.0.3"  # as it is read
    elif "swagger" in document:
        number = clean_text(str(document["swagger"]), 20)
        return Misfit(f"is Swagger {number}, which is not read: ask for OpenAPI 3", UNREADABLE)
    if isinstance(version, float):  # as YAML reads 3.0
        version = str(version)
    if not isinstance(version, str) or _VERSION.fullmatch(version) is None:
        return Misfit(f"is OpenAPI {str(version)[:20]}, which is not read: ask for OpenAPI 3", UNREADABLE)
    site = read_site(document) if site is None else site
    if not site.supported and not selection.any_version:
        shown_version = clean_text(str(get_extension(document)["version"]), 20)  # SE-08
        text = f"has an x-llm of the later major version {shown_version}, which is not read"
        return Misfit(
            f"{text}: --any-version, in Python Selection(any_version=True), reads it and asks about each call",
            LATER_VERSION,
        )
    if selection.include == "all" or site.declared:
        return Misfit()
    listed = list(list_operations(References(document), []))
    if any(get_extension(one.node) is not None for one in listed):
        return Misfit()
    return Misfit(_describe_unmarked(listed), UNMARKED)


UNREADABLE: Final = "unreadable"
LATER_VERSION: Final = "later_version"
UNMARKED: Final = "unmarked"


def _describe_unmarked(listed: Sequence[Operation]) -> str:
    """Return what a document without any x-llm is, with the next step."""
    # FU-51
    if not listed:
        return "is an OpenAPI document without operations"
    count = "1 operation, not" if len(listed) == 1 else f"{len(listed):,} operations, none"
    tags = dict.fromkeys(tag for one in listed for tag in list_texts(one.node.get("tags")))
    names = ", ".join(clean_text(tag, 40) for tag in list(tags)[:_TAGS_SHOWN])
    more = ", ..." if len(tags) > _TAGS_SHOWN else ""
    some = f"; add --tag NAME for those of one tag ({names}{more})" if tags else ""
    return (
        f"is an API with {count} marked for models (x-llm): --include all, in Python "
        f'selection=Selection(include="all"), takes every one and asks about each call{some}'
    )


_TAGS_SHOWN: Final = 5


def read_operations(
    document: dict[str, Any],
    url: str,
    selection: Selection = DEFAULT_SELECTION,
    *,
    hides: HiddenTexts | None = None,
    write_only: bool = True,
    site: SitePolicy | None = None,
) -> OperationToolSet:
    """Return the tools of ``document``, fetched from ``url``; ``explain_unfit`` must have returned ``""`` for it.

    ``hides`` are its hidden texts, if known; else they are searched. ``write_only``: it may have writeOnly properties.
    ``site`` is its policy, if known.
    """
    site = read_site(document) if site is None else site
    with pause_collection():
        if not swagger_20.is_swagger(document):
            return _read(document, url, selection, hides, site, write_only=write_only)
        document, notes = swagger_20.upgrade(document, url)
        found_tools = _read(document, url, selection, hides, site, write_only=False)  # 2.0 has no writeOnly
        found_tools.memo.notes.extend(notes)
        return found_tools


def _read(
    document: dict[str, Any],
    url: str,
    selection: Selection,
    hides: HiddenTexts | None,
    site: SitePolicy,
    *,
    write_only: bool,
) -> OperationToolSet:
    source = ToolSource(document, url, selection, hides, site, write_only=write_only)
    notes = source.notes
    notes.extend(_check_document(document, source.site, source.hides))
    none: list[Note] = []
    # By path and method, so that names do not depend on the order in the file.
    operations = sorted(list_operations(source.references, none), key=lambda one: (one.path, one.method))
    notes.extend(sorted(none))
    home = get_origin(url)
    names = choose_tool_names(
        [OperationName(home, one.method, one.path, one.node.get("operationId")) for one in operations]
    )
    works: dict[str, OperationTool] = {}
    tools: list[Tool] = []
    left: Counter[_LeftOutReason] = Counter()
    tags: Counter[str] = Counter()
    for one, name in zip(operations, names, strict=True):
        found_tool = _read_operation(source, one, name, selection, tags)
        if isinstance(found_tool, _LeftOutReason):
            left[found_tool] += 1
        elif isinstance(found_tool, Note):
            notes.append(found_tool)
        # The first one keeps the name: a second operation must not take over calls that were agreed to for the first.
        elif (id_ := found_tool.tool.id) in works:
            notes.append(Note(one.where, f"its name {found_tool.tool.name} is taken", one.pointer, 1))
        else:
            works[id_] = found_tool.work
            source.name_tool(one, found_tool.tool, found_tool.work)
            tools.append(found_tool.tool)
    notes.extend(why.note(left[why]) for why in _LeftOutReason if left[why])
    # Each operation is a tool or is counted in a finding, so their sum is the number of operations (XL-088).
    lost = sum(note.operations for note in notes) - sum(left.values())
    site = source.site
    catalog = Catalog(title=site.name, version=source.version, description=site.description, tools=tuple(tools))
    memo = OperationState(
        plans=Plans(works),
        notes=notes,
        operations=len(tools) + lost + sum(left.values()),
        tags=dict(sorted(tags.items())),
        schemes=source.security.schemes,
        references=source.tools,
        takes_query=FORM in get_list(document, ACCEPT_QUERY),
    )
    return OperationToolSet(catalog, memo)


def list_findings(found_tools: OperationToolSet) -> tuple[Note, ...]:
    """Return every finding of a document; this converts all schemas, to collect their findings too."""
    # XL-088
    for tool in found_tools.catalog.tools:
        # len() converts the schema, which is lazy, and conversion adds its findings.
        len(tool.input_schema)
        len(tool.output_schema or {})
    return tuple(found_tools.memo.notes)


class _LeftOutReason(Enum):
    """Reasons for which operations are left out with one common finding."""

    SILENT = ("1 operation without x-llm is not offered", "{} operations without x-llm are not offered")
    ABOUT_RESOURCES = (
        "1 operation by HEAD, OPTIONS or TRACE is not offered: only an x-llm of its own offers it",
        "{} operations by HEAD, OPTIONS or TRACE are not offered: only an x-llm of its own offers one",
    )
    UNWANTED = ("1 operation was not selected", "{} operations were not selected")

    def note(self, number: int) -> Note:
        """Return the finding with the number of such operations."""
        one, several = self.value
        return Note("", one if number == 1 else several.format(f"{number:,}"), "", number)


class _ReadOperation(NamedTuple):
    tool: Tool
    work: OperationTool


def _read_operation(
    source: ToolSource, one: Operation, name: str, selection: Selection, tags: Counter[str]
) -> _ReadOperation | Note | _LeftOutReason:
    """Return the tool of an operation, or the reason why there is none; the tags of each tool are added to ``tags``."""
    policy = read_operation(one.node, source.site, one.method, include_all=selection.include == "all")
    if not policy.exposed:
        return _explain_hidden(one, selection)
    deprecated = one.node.get("deprecated") is True
    own_tags = frozenset(list_texts(one.node.get("tags")))
    # Counted before the selection, so that a user sees what else the site offers.
    tags.update(own_tags)
    wanted = partial(
        selection.matches, name=name, method=one.method, path=one.path, tags=own_tags, deprecated=deprecated
    )
    safe = one.method in SAFE_METHODS
    if selection.is_narrowing and not wanted(safe=safe):
        return _LeftOutReason.UNWANTED
    found: list[str] = []
    try:
        work = OperationTool(source, one, found)
    # One operation that cannot be read costs one tool, not the document.
    except (Unusable, RecursionError) as error:
        return Note(one.where, str(error) or "it cannot be read", one.pointer, 1)
    if source.hides.owners and source.hides.affects(one.path, one.key, one.item.get("$ref")):
        found.append("something in it, or in what it refers to, was hidden from people: each call asks")
        policy = policy._replace(approval=Approval.PER_CALL, blanket_allowed=False)
    overriding = find_override(source.references, work.declared, one.path.partition("#")[0].partition("?")[2])
    if overriding:
        text = f"{clean_text(overriding, 100)} can make it another request than a {one.method}: each call asks"
        found.append(text)
        # X-HTTP-Method-Override and the like turn a GET into a write, so the method alone proves nothing.
        safe, policy = False, policy._replace(approval=Approval.PER_CALL, blanket_allowed=False)
        if selection.is_narrowing and not wanted(safe=safe):
            return _LeftOutReason.UNWANTED
    source.notes.extend(Note(one.where, text, one.pointer) for text in found)
    members = policy.list_tool_members()
    members["idempotent"] = policy.idempotent or (one.method in _IDEMPOTENT_METHODS and not overriding)
    declared = identity.read(one.node)
    who = declared or Identity(name, source.toolkit, source.version)
    # A site that declares toolkit, name and version keeps this identity; any other gets one from the document.
    own_id = one.node.get("operationId")
    tool = Tool(
        name=who.name,
        original_name=own_id if declared is None and isinstance(own_id, str) and own_id != name else "",
        description=describe_operation(one.node, one.method, one.path, policy.hint),
        toolkit=who.toolkit,
        version=who.version,
        input_schema=LazyMapping(work.input_schema),
        output_schema=None if source.answers.is_nothing(one.node) else LazyMapping(work.output_schema),
        safe=safe,
        deprecated=deprecated,
        requirements=identity.read_own_requirements(one.node),
        hints={NAME: LazyMapping(work.hint)},
        **members,
    )
    return _ReadOperation(tool, work)


def _explain_hidden(one: Operation, selection: Selection) -> Note | _LeftOutReason:
    """Return why an operation hidden by its policy is left out."""
    if get_extension(one.node) is not None:
        return Note(one.where, "its x-llm does not offer it", one.pointer, 1)
    if selection.include != "all":
        return _LeftOutReason.SILENT
    if one.node.get("x-mcp") is False:
        return Note(one.where, "its x-mcp does not offer it", one.pointer, 1)
    return _LeftOutReason.ABOUT_RESOURCES


def _check_document(document: dict[str, Any], site: SitePolicy, hides: HiddenTexts) -> Iterator[Note]:
    """Yield the findings about the document as a whole."""
    root = get_extension(document)
    if root is not None and not site.declared:
        yield Note("", "The root x-llm is not an object and counts as absent", "/x-llm")
    if isinstance(root, dict) and "version" not in root:
        yield Note("", "The root x-llm has no version: 0.1 is assumed", "/x-llm")
    if site.cautious or not site.supported:
        text = "The x-llm is of a later version: nothing is always allowed, and only reading goes unasked"
        if not site.supported:
            text = "The x-llm is of a later major version: each call needs consent, and nothing is always allowed"
        yield Note("", text, "/x-llm/version")
    if "x-llm" in document and "x-opentools" in document:
        yield Note("", "There is an x-llm and an x-opentools: the x-llm holds", "/x-opentools")
    version = str(document.get("openapi"))
    if not version.startswith(("3.0", "3.1", "3.2")):
        yield Note("", f"OpenAPI {clean_text(version, 20)} is newer than 3.2, and read like it", "/openapi")
    webhooks = document.get("webhooks")
    if isinstance(webhooks, dict) and webhooks:
        yield Note("", f"{len(webhooks)} webhooks are calls of the site to others, and no tools", "/webhooks")
    for place in hides.places:
        yield Note("", f"{clean_text(place, SHOWN)} hid something from people, which is taken out", place)
