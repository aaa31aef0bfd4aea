"""An OpenAPI document as tools: each operation that is offered, by name, with its schema, its policy and its plan.

Rules:
- One bad operation costs one tool and leaves one finding; operations = tools + what the findings count.
  [CV-30, XL-088]
- The same document gives the same tools, whatever the order of its members. [XL-087]
- Only operations with an ``x-llm`` that does not say otherwise are offered, unless all are asked for. [XL-034]
- Names, policies and parameters are read at once, schemas and plans when they are first looked at. [CV-25]
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from toolwire.core.catalog import Catalog, identifier
from toolwire.core.model import Approval, Json, Tool
from toolwire.core.selection import DECLARED, Selection
from toolwire.framing import jsontext

from . import body, hidden, hints, identity, inputs
from .body import Body
from .collecting import paused
from .declaring import Declared, Declaring
from .findings import SHOWN, Note, pointer
from .hidden import Hidden
from .identity import Identity
from .inputs import Taken
from .lazy import Lazy
from .naming import Named, tool_names
from .paths import is_template
from .plan import Plan
from .policy import SAFE_METHODS, SitePolicy, extension, read_operation, read_site
from .references import References, Unusable
from .responses import Answers
from .schemas import Schemas
from .security import Alternatives, Security
from .servers import Server, origin, server
from .texts import described, plain

NAME = "openapi"
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_EXTRA_METHOD = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,39}")
_NEVER = frozenset(("CONNECT",))
_TWICE_AS_ONCE = frozenset(("PUT", "DELETE"))
_BODILESS = ("GET", "HEAD", "DELETE")
_VERSION = re.compile(r"3\.\d{1,3}(\..*)?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memo:
    """What is remembered of a document: the plan of each tool by id, how many operations it has, and every finding.

    ``notes`` grow while schemas are looked at; ``report`` looks at all of them.
    """

    plans: Mapping[str, Plan]
    notes: list[Note] = field(default_factory=list)
    operations: int = 0

    @property
    def findings(self) -> tuple[str, ...]:
        """What was left out or taken otherwise, and why, as far as is known by now."""
        return tuple(map(str, self.notes))


class Offer(NamedTuple):
    """The tools of a document, and how they are called."""

    catalog: Catalog
    memo: Memo


class Operation(NamedTuple):
    """One operation where it stands. ``key`` is its name there, ``method`` what is sent."""

    method: str
    path: str
    item: dict[str, Any]
    node: dict[str, Any]
    key: str

    @property
    def where(self) -> str:
        """Method and path, for a finding."""
        return f"{self.method} {self.path[:SHOWN]}"

    @property
    def pointer(self) -> str:
        """Where it stands in its document."""
        extra = () if self.key in METHODS else ("additionalOperations",)
        return pointer("paths", self.path, *extra, self.key)


class _Source:
    """A document while its operations are read, and afterwards, while its tools are used."""

    def __init__(self, document: dict[str, Any], url: str, selection: Selection, hides: Hidden | None) -> None:
        self.document = document
        self.url = url
        self.notes: list[Note] = []
        self.site = read_site(document)
        self.references = References(document)
        self.security = Security(self.references)
        self.declaring = Declaring(self.references, self.security)
        looks = hides is None or bool(hides.owners)
        self.requests = Schemas(self.references, used_in="request", notes=self.notes, hides=looks)
        self.responses = Schemas(self.references, used_in="response", notes=self.notes, hides=looks)
        self.answers = Answers(self.references)
        self.hides = hidden.look(document) if hides is None else hides
        self.toolkit = identifier(self.site.name)
        self.version = identity.release(document)
        self._root = [{"url": selection.server}] if selection.server else document.get("servers")
        self._servers: dict[bytes, Server] = {}

    def server(self, one: Operation) -> Server:
        own, path = one.node.get("servers"), one.item.get("servers")
        key = b"" if own is None is path else jsontext.write([own, path])
        known = self._servers.get(key)
        if known is None:
            known = self._servers[key] = server(self.url, own, path, self._root)
        return known


class _Work:
    """One operation as a tool: what is known of it at once, and the rest when it is wanted."""

    __slots__ = ("_source", "_taken", "alternatives", "body", "declared", "one", "server")

    def __init__(self, source: _Source, one: Operation, notes: list[str]) -> None:
        path = _path(one)
        if not is_template(path):
            raise Unusable("its path is no path template")
        self.one = one
        self._source = source
        self._taken: Taken | None = None
        self.declared: list[Declared]
        self.declared, found = source.declaring.read(one.item, one.node, path)
        notes.extend(found)
        self.body = _body(source, one, notes)
        self.server = source.server(one)
        self.alternatives: Alternatives = source.security.of(one.node)

    def input_schema(self) -> Mapping[str, Json]:
        return self.taken().schema

    def output_schema(self) -> Mapping[str, Json]:
        source = self._source
        node = source.answers.schema(self.one.node)
        if node is None:
            return {}
        schema, names = source.responses.read(node, self.one.where)
        return source.responses.whole(schema, names, self.one.where)

    def taken(self) -> Taken:
        if self._taken is None:
            source = self._source
            self._taken = inputs.take(source.references, source.requests, self.declared, self.body, self.one.where)
        return self._taken

    def hint(self) -> Mapping[str, Json]:
        source, one = self._source, self.one
        where = origin(self.server.base) or ""
        return hints.write(one.node, one.method, one.path, where, self.alternatives, source.answers)

    def plan(self) -> Plan:
        one, taken, answers = self.one, self.taken(), self._source.answers
        path, _, query = one.path.partition("#")[0].partition("?")
        return Plan(
            method=one.method,
            base=self.server.base,
            server=self.server.template,
            server_variables=self.server.variables,
            path=path,
            fixed_query=query,
            parameters=taken.parameters,
            properties=taken.properties,
            whole_body=taken.whole_body,
            media_type=self.body.media_type if self.body is not None else None,
            body_required=self.body is not None and self.body.required,
            binary=self.body is not None and self.body.sort is body.Sort.BYTES,
            encodings=taken.encodings,
            security=self.alternatives,
            accept=answers.accept(one.node),
            idempotency=hints.idempotency(one.node, one.method, self.declared),
            responses=answers.declared(one.node),
            streams=answers.streams(one.node),
        )


class _Plans(Mapping[str, Plan]):
    """The plan of each tool by its id, made when it is first asked for."""

    __slots__ = ("_made", "_works")

    def __init__(self, works: dict[str, _Work]) -> None:
        self._works = works
        self._made: dict[str, Plan] = {}

    def __getitem__(self, id_: str) -> Plan:
        plan = self._made.get(id_)
        if plan is None:
            plan = self._made[id_] = self._works[id_].plan()
        return plan

    def __iter__(self) -> Iterator[str]:
        return iter(self._works)

    def __len__(self) -> int:
        return len(self._works)


def unfit(document: dict[str, Any], selection: Selection = DECLARED) -> str:
    """Return why ``document`` is not read at all, as the rest of a sentence, or ``""``. [XL-009, XL-028, CV-29]"""
    version = document.get("openapi")
    if "swagger" in document:
        return "is Swagger 2, which is not read: ask for OpenAPI 3"
    if isinstance(version, float):  # as YAML reads 3.0
        version = str(version)
    if not isinstance(version, str) or _VERSION.fullmatch(version) is None:
        return f"is OpenAPI {str(version)[:20]}, which is not read: ask for OpenAPI 3"
    site = read_site(document)
    if not site.supported:
        return "has an x-llm of a later major version, which is not read"
    if selection.include == "all" or site.declared:
        return ""
    if not any(extension(one.node) is not None for one in _operations(References(document), [])):
        text = "is an OpenAPI document without any x-llm: the site offers no operation to models"
        return f'{text} (include="all" takes every one)'
    return ""


def read(document: dict[str, Any], url: str, selection: Selection = DECLARED, *, hides: Hidden | None = None) -> Offer:
    """Return the tools of the fit ``document`` that came from ``url``.

    ``hides`` is what it hides from people, where that is known; else it is looked for.
    """
    with paused():
        return _read(document, url, selection, hides)


def _read(document: dict[str, Any], url: str, selection: Selection, hides: Hidden | None) -> Offer:
    source = _Source(document, url, selection, hides)
    notes = source.notes
    notes.extend(_whole(document, source.site, source.hides))
    none: list[Note] = []
    operations = sorted(_operations(source.references, none), key=lambda one: (one.path, one.method))
    notes.extend(sorted(none))
    home = origin(url) or ""
    names = tool_names([Named(home, one.method, one.path, one.node.get("operationId")) for one in operations])
    works: dict[str, _Work] = {}
    tools: list[Tool] = []
    left: Counter[_Left] = Counter()
    for one, name in zip(operations, names, strict=True):
        came = _offered(source, one, name, selection)
        if isinstance(came, _Left):
            left[came] += 1
        elif isinstance(came, Note):
            notes.append(came)
        elif (id_ := came.tool.id) in works:
            notes.append(Note(one.where, f"its name {came.tool.name} is taken", one.pointer, 1))
        else:
            works[id_] = came.work
            tools.append(came.tool)
    notes.extend(Note("", f"{left[why]} operations {why.value}", "", left[why]) for why in _Left if left[why])
    lost = sum(note.operations for note in notes) - sum(left.values())
    site = source.site
    catalog = Catalog(title=site.name, version=source.version, description=site.description, tools=tuple(tools))
    memo = Memo(plans=_Plans(works), notes=notes, operations=len(tools) + lost + sum(left.values()))
    return Offer(catalog, memo)


def report(offer: Offer) -> tuple[Note, ...]:
    """Return every finding of a document, those of its schemas too; it looks at all of them. [XL-088]"""
    for tool in offer.catalog.tools:
        len(tool.input_schema)
        len(tool.output_schema or {})
    return tuple(offer.memo.notes)


class _Left(Enum):
    """Why operations are left out that need no finding each."""

    SILENT = "have no x-llm and are not offered"
    UNWANTED = "were not selected"


class _Offered(NamedTuple):
    tool: Tool
    work: _Work


def _offered(source: _Source, one: Operation, name: str, selection: Selection) -> _Offered | Note | _Left:
    policy = read_operation(one.node, source.site, one.method, include_all=selection.include == "all")
    if not policy.exposed:
        if extension(one.node) is not None:
            return Note(one.where, "its x-llm does not offer it", one.pointer, 1)
        return _Left.SILENT
    safe = one.method in SAFE_METHODS
    deprecated = one.node.get("deprecated") is True
    if selection.narrows:
        path, tags = one.path, _tags(one.node)
        if not selection.takes(name=name, method=one.method, path=path, tags=tags, safe=safe, deprecated=deprecated):
            return _Left.UNWANTED
    found: list[str] = []
    try:
        work = _Work(source, one, found)
    except (Unusable, RecursionError) as error:
        return Note(one.where, str(error) or "it cannot be read", one.pointer, 1)
    if source.hides.owners and source.hides.touches(one.path, one.key, one.item.get("$ref")):
        found.append("something in it, or in what it refers to, was hidden from people: each call asks")
        policy = policy._replace(approval=Approval.PER_CALL, blanket_allowed=False)
    source.notes.extend(Note(one.where, text, one.pointer) for text in found)
    members = policy.members()
    members["idempotent"] = policy.idempotent or one.method in _TWICE_AS_ONCE
    who = identity.read(one.node) or Identity(name, source.toolkit, source.version)
    tool = Tool(
        name=who.name,
        description=described(one.node, one.method, one.path, policy.hint),
        toolkit=who.toolkit,
        version=who.version,
        input_schema=Lazy(work.input_schema),
        output_schema=None if source.answers.is_nothing(one.node) else Lazy(work.output_schema),
        safe=safe,
        deprecated=deprecated,
        hints={NAME: Lazy(work.hint)},
        **members,
    )
    return _Offered(tool, work)


def _operations(references: References, notes: list[Note]) -> Iterator[Operation]:
    """Yield every operation of the document; what is none where one should be is a note that counts as one."""
    paths = references.document.get("paths")
    for path, item in paths.items() if isinstance(paths, dict) else ():
        if path.startswith("x-"):
            continue
        try:
            whole = references.follow(item, "path item")
        except Unusable as error:
            notes.append(Note(path[:SHOWN], str(error), pointer("paths", path), 1))
            continue
        if "x-llm" in whole:
            notes.append(Note(path[:SHOWN], "an x-llm of a path is not read, only one of an operation"))
        for method in METHODS:
            if method in whole:
                yield from _operation(Operation(method.upper(), path, whole, whole[method], method), notes)
        extra = whole.get("additionalOperations")
        for method, node in sorted(extra.items()) if isinstance(extra, dict) else ():
            yield from _operation(Operation(method, path, whole, node, method), notes)


def _operation(one: Operation, notes: list[Note]) -> Iterator[Operation]:
    fixed = one.key in METHODS
    if not isinstance(one.node, dict):
        notes.append(Note(one.where, "it is not an object", one.pointer, 1))
    elif not fixed and (not _EXTRA_METHOD.fullmatch(one.method) or one.method.upper() in _NEVER):
        notes.append(Note(f"{one.method[:40]!r} {one.path[:SHOWN]}", "its method cannot be sent", one.pointer, 1))
    elif not fixed and one.method.lower() in METHODS:
        notes.append(Note(one.where, "its method has a place of its own, and is not additional", one.pointer, 1))
    else:
        yield one


def _body(source: _Source, one: Operation, notes: list[str]) -> Body | None:
    found = body.read(source.references, one.node.get("requestBody"))
    if found is None:
        return None
    if not found.required and one.method in _BODILESS:
        notes.append(f"a {one.method} takes no body, and this one is optional")
        return None
    if one.method == "TRACE":
        notes.append("a TRACE takes no body")
        return None
    if found.sort is body.Sort.XML:
        notes.append("its body is XML, which is one text here")
    return found


def _path(one: Operation) -> str:
    return one.path.partition("#")[0].partition("?")[0]


def _tags(operation: dict[str, Any]) -> frozenset[str]:
    tags = operation.get("tags")
    return frozenset(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else frozenset()


def _whole(document: dict[str, Any], site: SitePolicy, hides: Hidden) -> Iterator[Note]:
    """Yield what is to say of a document as a whole."""
    root = extension(document)
    if root is not None and not site.declared:
        yield Note("", "The root x-llm is no object and counts as absent", "/x-llm")
    if isinstance(root, dict) and "version" not in root:
        yield Note("", "The root x-llm has no version: 0.1 is assumed", "/x-llm")
    if site.cautious:
        text = "The x-llm is of a later version: nothing is always allowed, and only reading goes unasked"
        yield Note("", text, "/x-llm/version")
    if "x-llm" in document and "x-opentools" in document:
        yield Note("", "There is an x-llm and an x-opentools: the x-llm holds", "/x-opentools")
    version = str(document.get("openapi"))
    if not version.startswith(("3.0", "3.1", "3.2")):
        yield Note("", f"OpenAPI {plain(version, 20)} is newer than 3.2, and read like it", "/openapi")
    webhooks = document.get("webhooks")
    if isinstance(webhooks, dict) and webhooks:
        yield Note("", f"{len(webhooks)} webhooks are calls of the site to others, and no tools", "/webhooks")
    for place in hides.places:
        yield Note("", f"{plain(place, SHOWN)} hid something from people, which is taken out", place)
