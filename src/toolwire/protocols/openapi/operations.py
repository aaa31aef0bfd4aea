"""An OpenAPI document as tools: each operation that is offered, by name, with its schema, its policy and its plan.

Rules:
- One bad operation costs one tool and leaves one finding; nothing is left out silently. [CV-30, XL-088]
- The same document gives the same tools, whatever the order of its members. [XL-087]
- Only operations with an ``x-llm`` that does not say otherwise are offered. [XL-034]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from toolwire.core.catalog import VERSION, Catalog, identifier
from toolwire.core.model import Json, Schema, Tool
from toolwire.framing.xllm import Policy

from . import inputs
from .inputs import Inputs
from .naming import Named, tool_names
from .parameters import Place
from .policy import SAFE_METHODS, SitePolicy, extension, read_operation, read_site
from .references import Unusable, follow
from .requests import Plan, is_template, variables
from .schemas import Schemas
from .servers import origin, server

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_SUCCESS = re.compile(r"2\d\d")
_VERSION = re.compile(r"3\.\d{1,3}(\..*)?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memo:
    """What is remembered of a document: the plan of each tool by name, and what was left out and why."""

    plans: Mapping[str, Plan]
    findings: tuple[str, ...] = ()


class Offer(NamedTuple):
    """The tools of a document, and how they are called."""

    catalog: Catalog
    memo: Memo


class _Operation(NamedTuple):
    method: str
    path: str
    item: dict[str, Any]
    node: dict[str, Any]

    @property
    def where(self) -> str:
        return f"{self.method} {self.path[:200]}"


class _Source(NamedTuple):
    document: dict[str, Any]
    url: str
    site: SitePolicy
    version: str
    requests: Schemas
    responses: Schemas


def unfit(document: dict[str, Any]) -> str:
    """Return why ``document`` is not read at all, as the rest of a sentence, or ``""``. [XL-009, XL-028, CV-29]"""
    version = document.get("openapi")
    if "swagger" in document:
        return "is Swagger 2, which is not read: ask for OpenAPI 3"
    if not isinstance(version, str) or _VERSION.fullmatch(version) is None:
        return f"is OpenAPI {str(version)[:20]}, which is not read: ask for OpenAPI 3"
    site = read_site(document)
    if not site.supported:
        return "has an x-llm of a later major version, which is not read"
    if not site.declared and not any(extension(one.node) is not None for one in _operations(document, [])):
        return "is an OpenAPI document without any x-llm: the site offers no operation to models"
    return ""


def read(document: dict[str, Any], url: str) -> Offer:
    """Return the tools of the fit ``document`` that came from ``url``."""
    site = read_site(document)
    requests = Schemas(document, used_in="request")
    responses = Schemas(document, used_in="response")
    source = _Source(document, url, site, _release(document), requests, responses)
    findings = _site_findings(document, site)
    operations = sorted(_operations(document, findings), key=lambda one: (one.path, one.method))
    home = origin(url) or ""
    names = tool_names([Named(home, one.method, one.path, one.node.get("operationId")) for one in operations])
    tools: dict[str, Tool] = {}
    plans: dict[str, Plan] = {}
    for one, name in zip(operations, names, strict=True):
        policy = read_operation(one.node, site, one.method)
        if not policy.exposed:
            continue
        try:
            tool, plan, notes = _tool(source, one, name, policy)
        except (Unusable, RecursionError) as error:
            findings.append(f"{one.where}: {str(error) or 'it cannot be read'}.")
            continue
        findings.extend(f"{one.where}: {note}." for note in notes)
        if tool.id in tools:
            findings.append(f"{one.where}: its name {name} is taken.")
        else:
            tools[tool.id], plans[name] = tool, plan
    findings.extend(_hidden(operations, site))
    catalog = Catalog(
        title=site.name, version=source.version, description=site.description, tools=tuple(tools.values())
    )
    return Offer(catalog, Memo(plans=plans, findings=tuple(findings)))


def _site_findings(document: dict[str, Any], site: SitePolicy) -> list[str]:
    findings: list[str] = []
    if extension(document) is not None and not site.declared:
        findings.append("The root x-llm is no object and counts as absent.")
    if site.cautious:
        findings.append("The x-llm is of a later version: nothing is always allowed, and only reading goes unasked.")
    return findings


def _hidden(operations: list[_Operation], site: SitePolicy) -> list[str]:
    """Return a finding for each operation that its ``x-llm`` hides, and one for all that have none."""
    hidden = [one for one in operations if not read_operation(one.node, site, one.method).exposed]
    silent = sum(extension(one.node) is None for one in hidden)
    findings = [f"{one.where}: its x-llm does not offer it." for one in hidden if extension(one.node) is not None]
    return [*findings, f"{silent} operations have no x-llm and are not offered."] if silent else findings


def _operations(document: dict[str, Any], findings: list[str]) -> Iterator[_Operation]:
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, dict) else ():
        if path.startswith("x-"):
            continue
        try:
            whole = follow(document, item, "path item")
        except Unusable as error:
            findings.append(f"{path[:200]}: {error}.")
            continue
        if "additionalOperations" in whole:
            findings.append(f"{path[:200]}: its additionalOperations are not read.")
        for method in METHODS:
            if isinstance(whole.get(method), dict):
                yield _Operation(method.upper(), path, whole, whole[method])
            elif method in whole:
                findings.append(f"{method.upper()} {path[:200]}: it is not an object.")


def _tool(source: _Source, one: _Operation, name: str, policy: Policy) -> tuple[Tool, Plan, tuple[str, ...]]:
    taken = inputs.read(source.document, source.requests, one.method, one.item, one.node)
    tool = Tool(
        name=name,
        description=_description(one, policy.hint),
        toolkit=identifier(source.site.name),
        version=source.version,
        input_schema=taken.schema,
        output_schema=_output(source.document, source.responses, one.node),
        safe=one.method in SAFE_METHODS,
        deprecated=one.node.get("deprecated") is True,
        **policy.members(),
    )
    return tool, _plan(source, one, taken), taken.notes


def _plan(source: _Source, one: _Operation, taken: Inputs) -> Plan:
    path, _, query = one.path.partition("#")[0].partition("?")
    if not is_template(path):
        raise Unusable("its path is no path template")
    placed = {parameter.name for _, parameter in taken.parameters if parameter.place is Place.PATH}
    wanted = set(variables(path))
    if wanted - placed:
        raise Unusable(f"its path has {', '.join(sorted(wanted - placed))[:100]}, which is no parameter")
    if placed - wanted:
        raise Unusable(f"its parameter {', '.join(sorted(placed - wanted))[:100]} is not in its path")
    return Plan(
        method=one.method,
        base=server(source.url, *(node.get("servers") for node in (one.node, one.item, source.document))),
        path=path,
        fixed_query=query,
        parameters=taken.parameters,
        properties=taken.properties,
        whole_body=taken.whole_body,
        media_type=taken.body.media_type if taken.body is not None else None,
        body_required=taken.body is not None and taken.body.required,
    )


def _description(one: _Operation, hint: str) -> str:
    """Return summary and hint; else the first paragraph of the description, else method and path. [XL-070]"""
    summary, description = one.node.get("summary"), one.node.get("description")
    text = summary if isinstance(summary, str) else ""
    if not text and isinstance(description, str):
        text = description.strip().partition("\n\n")[0]
    return (text or f"{one.method} {one.path}") + (f"\n{hint}" if hint else "")


def _output(document: dict[str, Any], schemas: Schemas, operation: dict[str, Any]) -> Schema | None:
    """Return the schema of the JSON that success brings: ``{}`` where nobody says, None where it is always null."""
    try:
        node = _success(document, operation)
        schema, names = schemas.read(node) if node is not None else ({}, set[str]())
        definitions = schemas.definitions(names)
    except Unusable:
        return {}  # what a result looks like is a courtesy; the tool works without
    if schema == {"type": "null"}:
        return None
    return {**schema, "$defs": definitions} if definitions else schema


def _success(document: dict[str, Any], operation: dict[str, Any]) -> Json:
    """Return the JSON schema of the response that success brings: an exact status, else 2XX, else default. [CV-24]"""
    responses = operation.get("responses")
    declared = responses if isinstance(responses, dict) else {}
    exact = sorted(code for code in declared if _SUCCESS.fullmatch(code))
    codes = [*exact, *(code for code in ("2XX", "2xx") if code in declared)]
    for code in codes or ["default"]:
        if code in declared:
            content = follow(document, declared[code], "response").get("content")
            entries = content if isinstance(content, dict) else {}
            for media_type in sorted(entries):
                kind = media_type.partition(";")[0].strip().lower()
                if kind == "application/json" or kind.endswith("+json"):
                    return follow(document, entries[media_type], "media type").get("schema")
    return None


def _release(document: dict[str, Any]) -> str:
    info = document.get("info")
    version = info.get("version") if isinstance(info, dict) else None
    legal = isinstance(version, str) and len(version) <= 32 and VERSION.fullmatch(version)
    return version if isinstance(version, str) and legal else "1.0.0"
