"""Make a tool of one operation: names and parameters at once; schemas, hints and plan at their first use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from toolwire.core.catalog import build_toolkit_name
from toolwire.core.content import build_content_schema
from toolwire.core.model import Json, Tool
from toolwire.core.selection import Selection
from toolwire.core.url_origin import get_origin
from toolwire.framing import jsontext
from toolwire.protocols.openapi.document import hidden_text, identity
from toolwire.protocols.openapi.document.consent_policy import SitePolicy
from toolwire.protocols.openapi.document.findings import Note
from toolwire.protocols.openapi.document.hidden_text import HiddenTexts
from toolwire.protocols.openapi.document.inheritance import expand_inheritance
from toolwire.protocols.openapi.document.operation_list import Operation
from toolwire.protocols.openapi.document.references import References, Unusable
from toolwire.protocols.openapi.document.servers import Server, choose_server
from toolwire.protocols.openapi.request.path_template import is_template
from toolwire.protocols.openapi.request.plan import Place, Plan
from toolwire.protocols.openapi.schema.converter import SchemaConverter
from toolwire.protocols.openapi.schema.write_only import WriteOnlyProperties

from . import body_arguments, hints, input_schema, links
from .body_arguments import Body
from .declared_responses import DeclaredResponses
from .input_schema import OperationArguments
from .links import Target
from .parameter_arguments import DeclaredParameter, ParameterReader
from .security import Alternatives, Security

# RFC 9110, 9.3.1, 9.3.2 and 9.3.5 say so.
_COLON_STYLE = re.compile(r"/(:[A-Za-z_]\w*)(?=/|\Z)")
_METHODS_WITHOUT_BODY = ("GET", "HEAD", "DELETE")
"""The methods for which HTTP does not define the meaning of a body."""


class NamedOperation(NamedTuple):
    """The tool of an operation, with its name and id."""

    name: str
    id: str
    work: OperationTool


class ToolSource:
    """The data of one document that its tools share: references, security, converters and servers."""

    def __init__(
        self,
        document: dict[str, Any],
        url: str,
        selection: Selection,
        hides: HiddenTexts | None,
        site: SitePolicy,
        *,
        write_only: bool,
    ) -> None:
        self.document = document
        self.url = url
        self.notes: list[Note] = []
        self.site = site
        self.references: References = References(expand_inheritance(document, self.notes))
        self.security: Security = Security(self.references)
        self.declaring: ParameterReader = ParameterReader(self.references, self.security)
        can_look = hides is None or bool(hides.owners)
        self.requests: SchemaConverter = SchemaConverter(
            self.references, used_in="request", notes=self.notes, hides=can_look
        )
        self.responses: SchemaConverter = SchemaConverter(
            self.references, used_in="response", notes=self.notes, hides=can_look
        )
        self.patches: SchemaConverter = SchemaConverter(
            self.references, used_in="request", notes=self.notes, hides=can_look, removes=True
        )
        self.answers: DeclaredResponses = DeclaredResponses(self.references)
        self.write_only: WriteOnlyProperties | None = WriteOnlyProperties(self.references) if write_only else None
        self.hides: HiddenTexts = hidden_text.find_hidden_text(document) if hides is None else hides
        self.toolkit: str = build_toolkit_name(self.site.name)
        self.version: str = identity.release(document)
        self.tools: dict[str, NamedOperation] = {}
        self._root = [{"url": selection.server}] if selection.server else document.get("servers")
        self._servers: dict[bytes, Server] = {}

    def name_tool(self, one: Operation, tool: Tool, work: OperationTool) -> None:
        """Record the tool of an operation by its operationId and pointer, for links."""
        id_ = one.node.get("operationId")
        for reference in (one.pointer, *((id_,) if isinstance(id_, str) and id_ else ())):
            # The first operation keeps an operationId that several declare.
            self.tools.setdefault(reference, NamedOperation(tool.name, tool.id, work))

    def choose_server(self, one: Operation) -> Server:
        """Return the server an operation is called at."""
        own, path = one.node.get("servers"), one.item.get("servers")
        # Nearly all operations share the servers of the root: choosing once is enough.
        key = b"" if own is None is path else jsontext.write([own, path])
        known = self._servers.get(key)
        if known is None:
            known = self._servers[key] = choose_server(self.url, own, path, self._root)
        return known


class OperationTool:
    """One operation as a tool; schemas, hints and plan are built when they are requested."""

    __slots__ = ("_source", "_taken", "alternatives", "body", "declared", "fixed_query", "one", "server")

    def __init__(self, source: ToolSource, one: Operation, notes: list[str]) -> None:
        path = _get_path(one)
        if not is_template(path):
            raise Unusable("its path is not a valid path template")
        if found_colon := _COLON_STYLE.search(path):
            # O-32: OpenAPI knows braces only, so the name itself would be requested.
            raise Unusable(f"its path contains {found_colon[1]}, which OpenAPI writes as {{{found_colon[1][1:]}}}")
        self.one: Operation = one
        self._source = source
        self._taken: OperationArguments | None = None
        self.declared: list[DeclaredParameter]
        self.declared, found = source.declaring.read(one.item, one.node, path)
        notes.extend(found)
        self.body: Body | None = _read_body(source, one, notes)
        self.fixed_query: str = _read_fixed_query(one, self.declared)
        self.server: Server = source.choose_server(one)
        self.alternatives: Alternatives = source.security.list_alternatives(one.node)

    def input_schema(self) -> Mapping[str, Json]:
        """Return the input schema."""
        return self.arguments().schema

    def output_schema(self) -> Mapping[str, Json]:
        """Return the output schema; empty if none is declared."""
        if kind := identity.read_content_kind(self.one.node):
            return build_content_schema(kind)
        source = self._source
        node = source.answers.find_schema(self.one.node)
        if node is None:
            return {}
        schema, names = source.responses.read(node, self.one.where)
        return source.responses.add_definitions(schema, names, self.one.where)

    def arguments(self) -> OperationArguments:
        """Return the arguments and the place of each, built once."""
        # Building the schema is the expensive part of reading, and most tools of a large document are never looked at.
        if self._taken is None:
            source = self._source
            removes = self.body is not None and self.body.media_type in body_arguments.MERGE_PATCHES
            self._taken = input_schema.build_arguments(
                source.references,
                source.patches if removes else source.requests,
                self.declared,
                self.body,
                self.one.where,
            )
        return self._taken

    def hint(self) -> Mapping[str, Json]:
        """Return the hints for programs."""
        one = self.one
        where = get_origin(self.server.base)
        return hints.write_hint(one.node, one.method, one.path, where, self.alternatives, self._iterate_steps())

    def _iterate_steps(self) -> Iterator[dict[str, Json]]:
        """Yield the next steps, with the names of tools and arguments."""
        # XL-075, CV-27
        for step in links.read_steps(self.one.node, self._source.answers.iterate_links(self.one.node)):
            found = self._source.tools.get(links.get_reference(step))
            target = None if found is None else Target(found.name, found.work.arguments())
            translated = links.translate_step(step, self.arguments(), target)
            if translated is not None:
                yield translated

    def plan(self) -> Plan:
        """Return the plan of calls."""
        one, taken, answers = self.one, self.arguments(), self._source.answers
        # Some documents write a fixed query into the path; it is sent with each call.
        path = _get_path(one)
        return Plan(
            method=one.method,
            base=self.server.base,
            server=self.server.template,
            server_variables=self.server.variables,
            path=path,
            fixed_query=self.fixed_query,
            parameters=taken.parameters,
            properties=taken.properties,
            takes_more=taken.takes_more,
            whole_body=taken.whole_body,
            media_type=self.body.media_type if self.body is not None else None,
            body_required=self.body is not None and self.body.required,
            binary=self.body is not None and self.body.sort is body_arguments.BodyKind.BYTES,
            encodings=taken.encodings,
            security=self.alternatives,
            accept=answers.build_accept(one.node),
            idempotency=hints.find_idempotency_header(one.node, one.method, self.declared),
            responses=answers.list_schemas(one.node),
            streams=answers.may_stream(one.node),
            write_only=self._source.write_only,
            content=identity.read_content_kind(one.node),
        )


class Plans(Mapping[str, Plan]):
    """The plan of each tool by its id, built at the first request."""

    __slots__ = ("_made", "_works")

    def __init__(self, works: dict[str, OperationTool]) -> None:
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


def _read_body(source: ToolSource, one: Operation, notes: list[str]) -> Body | None:
    found = body_arguments.read_body(source.references, one.node.get("requestBody"))
    if found is None:
        return None
    if one.method in _METHODS_WITHOUT_BODY:
        if _is_ignored(source, one.method, found):
            notes.append(f"a {one.method} takes no body in OpenAPI 3.0, and this one is optional")
            return None
        notes.append(f"HTTP gives the body of a {one.method} no meaning: it is sent where an argument gives one")
    # RFC 9110, 9.3.8: a TRACE has no content. Its response repeats what was sent, credentials included.
    if one.method == "TRACE":
        notes.append("a TRACE takes no body")
        return None
    if found.sort is body_arguments.BodyKind.XML:
        notes.append("its body is XML, which is one text here")
    notes += body_arguments.find_body_limits(source.references, found)
    return found


def _is_ignored(source: ToolSource, method: str, found: Body) -> bool:
    """Return whether an optional body of GET or HEAD is left out, as OpenAPI 3.0 requires.

    The body of a DELETE is kept in any version: for many services it contains the only arguments.
    """
    old = str(source.document.get("openapi", "")).startswith("3.0")
    return old and not found.required and method != "DELETE"


def _read_fixed_query(one: Operation, declared: Sequence[DeclaredParameter]) -> str:
    """Return the query that the path ends with, without the parameters that it only repeats.

    Raises:
        Unusable: a template in it is no declared parameter by its own name.
    """
    # O-32
    query = one.path.partition("#")[0].partition("?")[2]
    if "{" not in query:
        return query
    names = {each.parameter.name for each in declared if each.parameter.place is Place.QUERY}
    pairs = []
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if "{" not in pair:
            pairs.append(pair)
        elif name not in names or value != f"{{{name}}}":
            raise Unusable(f"the query in its path contains {pair[:100]}, which is not a declared parameter")
    return "&".join(pairs)


def _get_path(one: Operation) -> str:
    return one.path.partition("#")[0].partition("?")[0]
