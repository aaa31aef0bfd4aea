"""Describe what a server offers beside tools: resources that can be read, prompts that can be filled in, and skills.

Rules:
- Behind each stands a reader: a tool that no list of tools has. So a read passes the same checks as a call.
- The toolkit of a reader contains a colon, which that of no tool can. So the two never share an id.
- All texts are those of the server (untrusted).
"""
# MC-08

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from mimetypes import guess_type
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from .content import Audio, File, Image
from .model import Json, Kind, Problem, Tool
from .resource_changes import ResourceChanges
from .suggestion import find_nearest
from .uri_template import UriTemplate

_MARK: Final = ":"
_MAX_SHOWN: Final = 20

PAGE_SCHEME: Final = "ui://"
"""Begins the URI of a page that a host shows for a tool (MCP Apps). Hosts accept no other scheme for one."""

_KNOWN_SCHEMES: Final = frozenset({"http", "https", "data", "mailto", "attachment", "ui"})
"""Schemes of links that a client follows without the server, and of pages and attachments, which a result names."""

SKILL_FILE: Final = "SKILL.md"
MAX_SKILL_FILES: Final = 512
MAX_SKILL_BYTES: Final = 16 * 1024 * 1024
"""What every host must load of one skill: files, and bytes of all of them together (SEP-2640)."""

PAGE_URIS: Final = "page_uris"
"""The hint of a tool that names the URIs of its pages, as a tuple."""

_PLAIN: Final = "".join(map(chr, range(0x21, 0x7F)))
_ESCAPED: Final = re.compile("(?:%20|%[89A-Fa-f][0-9A-Fa-f])+")

URI_PREFIX: Final = "uri_prefix"
"""The hint of a tool that says what a gateway puts before the URIs of the tool's server."""


def _escape(uri: str) -> str:
    """Return ``uri`` with blanks and what is not ASCII percent-encoded."""
    return quote(uri, safe=_PLAIN) if uri.isprintable() else uri


def unescape(uri: str) -> str:
    """Return ``uri`` with blanks and what is not ASCII as they are; every other percent-encoding stays."""
    return _ESCAPED.sub(lambda match: _unescape_characters(match[0]), uri)


def _unescape_characters(escaped: str) -> str:
    text = unquote(escaped, errors="surrogateescape")
    return text if text.isprintable() else escaped


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDefinition:
    """A resource at a URI, or at each URI that matches a template.

    - ``uri``: a URI, or a URI template with variables.
    - ``size``: in bytes.
    - ``prefix``: what a gateway puts before an upstream's URIs.
    - ``takes_uri``: pass the whole URI to the reader, instead of the variables.
    - ``changes``: reports changes, by URIs without the prefix. None if changes are not reported.
    - ``completer``: returns the possible values of a variable, if another server knows them.
    """

    uri: str
    reader: Tool
    title: str = ""
    media_type: str = ""
    size: int | None = None
    prefix: str = ""
    takes_uri: bool = False
    changes: ResourceChanges | None = field(default=None, repr=False, compare=False)
    completer: Tool | None = field(default=None, repr=False)
    template: UriTemplate = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = _escape(self.uri) if self.takes_uri else self.uri
        try:
            template = UriTemplate(text)
        except ValueError:
            if not self.takes_uri or "{" not in self.uri:
                raise
            # Another server may use all of RFC 6570: it gets the whole URI, so only the beginning must be known here.
            template = UriTemplate(text.partition("{")[0] + "{+rest}")
        object.__setattr__(self, "template", template)

    @property
    def name(self) -> str:
        """The name of the resource."""
        return self.reader.name

    @property
    def description(self) -> str:
        """What the resource contains."""
        return self.reader.description

    @property
    def is_template(self) -> bool:
        """Whether ``uri`` has variables."""
        return bool(self.template.names)

    @property
    def public_uri(self) -> str:
        """The URI or template by which callers read it: ASCII, because some clients discard a list with another URI."""
        return add_uri_prefix(_escape(self.uri), self.prefix)

    def find_own_uri(self, uri: str) -> str | None:
        """Return the server's own form of ``uri``, or None if it belongs to another server."""
        begin = add_uri_prefix(PAGE_SCHEME if uri.startswith(PAGE_SCHEME) else "", self.prefix)
        if not uri.startswith(begin):
            return None
        return (PAGE_SCHEME if uri.startswith(PAGE_SCHEME) else "") + uri[len(begin) :]

    def match(self, uri: str) -> dict[str, Json] | None:
        """Return the reader's arguments if ``uri`` belongs to this resource, or None."""
        own = self.find_own_uri(uri)
        if own is None:
            return None
        values = self.template.match(_escape(own) if self.takes_uri else own)
        if values is None or self.takes_uri:
            return None if values is None else {"uri": self._restore(own) if self.is_template else self.uri}
        return read_texts(values, self.reader)

    def _restore(self, own: str) -> str:
        """Return ``own``, which the template matches, as its server writes such a URI."""
        return own if self.uri.isascii() and " " not in self.uri else unescape(own)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDefinition:
    """A prompt that a user can choose. Its arguments are its reader's parameters, all passed as strings.

    ``completer`` returns the possible values of an argument, if another server knows them.
    """

    reader: Tool
    title: str = ""
    name: str = ""
    completer: Tool | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.reader.name)

    @property
    def description(self) -> str:
        """What the prompt is for."""
        return self.reader.description

    @property
    def arguments(self) -> tuple[PromptArgument, ...]:
        """The arguments, in the reader's order."""
        schema = self.reader.input_schema
        properties, required = schema.get("properties"), schema.get("required")
        names: Sequence[Json] = required if isinstance(required, list) else ()
        return tuple(
            PromptArgument(name, _read_description(inner), name in names)
            for name, inner in (properties.items() if isinstance(properties, dict) else ())
        )


class PromptArgument(NamedTuple):
    """One argument of a prompt: its name, what it means, and whether it must be given."""

    name: str
    description: str
    is_required: bool


class SkillFile(NamedTuple):
    """A file of a skill: its URI, ``sha256:`` and the hexadecimal digest of its bytes, and their number."""

    uri: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDefinition:
    """A folder of instructions for a model, with a file SKILL.md (MCP Skills, SEP-2640).

    - ``resource``: SKILL.md.
    - ``entry``: what the server publishes about the skill, with the server's own URIs.
    - ``finder``: returns the current entry, if the skill belongs to another server.
    """

    resource: ResourceDefinition
    entry: Mapping[str, Json] = field(repr=False)
    finder: Tool | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        """The URI by which callers read SKILL.md."""
        return self.resource.public_uri

    @property
    def name(self) -> str:
        """The skill's name. Several skills can share a name."""
        return str(self.frontmatter["name"])

    @property
    def description(self) -> str:
        """What the skill does, and when to use it."""
        return str(self.frontmatter["description"])

    @property
    def frontmatter(self) -> Mapping[str, Json]:
        """The YAML frontmatter of SKILL.md."""
        frontmatter = self.entry["frontmatter"]
        return frontmatter if isinstance(frontmatter, dict) else {}

    @property
    def files(self) -> tuple[SkillFile, ...] | None:
        """Every file of the skill, or None if its server generates the files and publishes no digests."""
        listed = self.entry["resources"]
        if not isinstance(listed, list):
            return None
        prefix = self.resource.prefix
        # Entries are checked when they are read.
        return tuple(SkillFile(add_uri_prefix(one["uri"], prefix), one["digest"], one["size"]) for one in listed)

    def find_uri(self, path: str) -> str | None:
        """Return the URI of the file at ``path``, such as ``references/FORMS.md``, or None if there is no such file."""
        root, files = find_skill_root(self.uri), self.files
        if files is not None:
            return next((one.uri for one in files if unquote(one.uri) == f"{unquote(root)}/{path}"), None)
        uri = f"{root}/{quote(path)}"
        return uri if is_skill_file(uri, self.uri) else None

    def find_file(self, uri: str) -> str | None:
        """Return the server's own URI of the file at ``uri``, or None if the skill has no such file."""
        own = self.resource.find_own_uri(uri)
        if own is None or not is_skill_file(own, self.resource.uri):
            return None
        # Another server may have added a file since it listed the skill: it decides what it serves.
        is_served = self.finder is not None or any(one.uri == uri for one in self.files or ())
        return own if is_served else None


def build_skill(entry: Mapping[str, Json], reader: Tool) -> SkillDefinition:
    """Return the skill of another server that has published ``entry``; ``reader`` reads its files.

    Raises:
        ValueError: the URI of the entry is none.
    """
    hints: dict[str, Json] = {"mcp": {"skill": True}}
    resource = ResourceDefinition(uri=str(entry["uri"]), reader=reader, takes_uri=True)
    finder = replace(reader, toolkit=f"{reader.toolkit}:entry", hints=hints)
    return SkillDefinition(resource=resource, entry=entry, finder=finder)


def find_skill_root(uri: str) -> str:
    """Return the URI of the folder whose SKILL.md is at ``uri``."""
    return uri.removesuffix(f"/{SKILL_FILE}")


def is_skill_file(uri: str, skill_uri: str) -> bool:
    """Return whether ``uri`` names a file in the folder of the skill at ``skill_uri``, and none outside it."""
    root = f"{find_skill_root(skill_uri)}/"
    return uri.startswith(root) and not any(_leads_elsewhere(one) for one in uri[len(root) :].split("/"))


def _leads_elsewhere(segment: str) -> bool:
    name = unquote(segment)
    return name in ("", ".", "..") or not {"/", "\\", "\0"}.isdisjoint(name) or not {"?", "#"}.isdisjoint(segment)


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt: a text, image, sound or file, said by the user or by the assistant."""

    content: str | Image | Audio | File
    role: Literal["user", "assistant"] = "user"


class UnlistedResources(NamedTuple):
    """What another server may serve at URIs that it does not list; ``reader`` gets the URI without ``prefix``."""

    reader: Tool
    prefix: str = ""

    def find(self, uri: str) -> tuple[ResourceDefinition, dict[str, Json]] | None:
        """Return the resource at ``uri`` with the arguments of its reader; None if ``uri`` is not one of the server."""
        own = uri.removeprefix(self.prefix)
        if not uri.startswith(self.prefix) or not self.has(own):
            return None
        try:
            found = ResourceDefinition(uri=own, reader=self.reader, prefix=self.prefix, takes_uri=True)
        except ValueError:
            return None
        return found, {"uri": own}

    @staticmethod
    def has(own: str) -> bool:
        """Return whether only the server itself can know what is at ``own``, its own URI."""
        scheme, colon, _ = own.partition(":")
        return bool(colon) and scheme.lower() not in _KNOWN_SCHEMES


class ServerFeatures(NamedTuple):
    """The resources, prompts and skills of a server; ``findings`` has a sentence for each entry that was left out."""

    resources: tuple[ResourceDefinition, ...] = ()
    prompts: tuple[PromptDefinition, ...] = ()
    findings: tuple[str, ...] = ()
    skills: tuple[SkillDefinition, ...] = ()
    unlisted: tuple[UnlistedResources, ...] = ()

    @property
    def readers(self) -> tuple[Tool, ...]:
        """The reader of each resource, then of each prompt and each skill."""
        read = (*(one.reader for one in self.resources), *(one.reader for one in self.prompts))
        return (*read, *(one.resource.reader for one in self.skills), *(one.reader for one in self.unlisted))

    @property
    def completers(self) -> tuple[Tool, ...]:
        """The completers of those resources and prompts that have one, and the finders of skills."""
        found = (*(one.completer for one in self.resources), *(one.completer for one in self.prompts))
        return tuple(one for one in (*found, *(one.finder for one in self.skills)) if one is not None)

    def find_resource(self, uri: str) -> tuple[ResourceDefinition, dict[str, Json]] | Problem:
        """Return the resource at ``uri`` with the arguments of its reader; a plain URI goes before templates."""
        for is_template in (False, True):
            for one in self.resources:
                if one.is_template is is_template and (given := one.match(uri)) is not None:
                    return one, given
        for skill in self.skills:
            if (own := skill.find_file(uri)) is not None:
                return replace(skill.resource, media_type=guess_type(uri)[0] or ""), {"uri": own}
        for unlisted in self.unlisted:
            if (found := unlisted.find(uri)) is not None:
                return found
        near = find_nearest(uri[:200], [one.public_uri for one in self.resources])
        hint = f" Did you mean {near}?" if near else ""
        text = f"There is no resource {uri[:200]!r} here.{hint} {_list_known(one.public_uri for one in self.resources)}"
        return Problem(kind=Kind.INVALID_ARGUMENTS, message=text, details={"reason": "unknown_resource"})

    def find_public_uri(self, own: str) -> str:
        """Return the URI by which callers read what its server calls ``own``; ``own`` if they cannot read it here."""
        for unlisted in self.unlisted:
            if unlisted.has(own):
                return unlisted.prefix + _escape(own)
        listed = (*self.resources, *(one.resource for one in self.skills))
        for one in listed:
            if own == one.uri or (one.is_template and one.template.match(own) is not None):
                return add_uri_prefix(_escape(own), one.prefix)
        return own

    def find_prompt(self, name: str) -> PromptDefinition | Problem:
        """Return the prompt ``name``."""
        for one in self.prompts:
            if one.name == name:
                return one
        near = find_nearest(name[:200], [one.name for one in self.prompts])
        hint = f" Did you mean {near}?" if near else ""
        text = f"There is no prompt {name[:200]!r} here.{hint} {_list_known(one.name for one in self.prompts)}"
        return Problem(kind=Kind.INVALID_ARGUMENTS, message=text, details={"reason": "unknown_prompt"})

    def find_skill(self, uri: str) -> SkillDefinition | Problem:
        """Return the skill whose SKILL.md is at ``uri``."""
        found = next((one for one in self.skills if one.uri == uri), None)
        text = f"There is no skill {uri[:200]!r} here. {_list_known(one.uri for one in self.skills)}"
        return found or Problem(kind=Kind.INVALID_ARGUMENTS, message=text, details={"reason": "unknown_skill"})

    def filter(self, allows: Callable[[Tool], bool]) -> ServerFeatures:
        """Return those whose reader ``allows`` is true of."""
        return ServerFeatures(
            tuple(one for one in self.resources if allows(one.reader)),
            tuple(one for one in self.prompts if allows(one.reader)),
            skills=tuple(one for one in self.skills if allows(one.resource.reader)),
            unlisted=tuple(one for one in self.unlisted if allows(one.reader)),
        )


DefinitionT = TypeVar("DefinitionT", ResourceDefinition, PromptDefinition)
NO_FEATURES: Final = ServerFeatures()
FeatureKind: TypeAlias = Literal["resource", "prompt", "skill"]


def name_reader_toolkit(toolkit: str, kind: FeatureKind) -> str:
    """Return the toolkit of the readers of ``kind`` that belong to ``toolkit``."""
    return f"{toolkit}{_MARK}{kind}"


def is_reader(tool: Tool) -> bool:
    """Return whether ``tool`` stands behind a resource or a prompt."""
    return _MARK in tool.toolkit


def merge_features(parts: Sequence[ServerFeatures]) -> ServerFeatures:
    """Return everything in ``parts``, without a second resource or skill of one URI or a second prompt of one name."""
    resources = {one.public_uri: one for one in reversed([*chain.from_iterable(part.resources for part in parts)])}
    prompts = {one.name: one for one in reversed([*chain.from_iterable(part.prompts for part in parts)])}
    skills = {one.uri: one for one in reversed([*chain.from_iterable(part.skills for part in parts)])}
    findings = tuple(chain.from_iterable(part.findings for part in parts))
    listed = tuple(reversed(resources.values())), tuple(reversed(prompts.values()))
    unlisted = tuple(chain.from_iterable(part.unlisted for part in parts))
    return ServerFeatures(*listed, findings, tuple(reversed(skills.values())), unlisted)


def add_uri_prefix(uri: str, prefix: str) -> str:
    """Return ``uri`` under ``prefix``; the URI of a page keeps its scheme."""
    # I-24
    return PAGE_SCHEME + prefix + uri[len(PAGE_SCHEME) :] if uri.startswith(PAGE_SCHEME) else prefix + uri


def add_prefix(features: ServerFeatures, name: str, scheme: str) -> ServerFeatures:
    """Return ``features`` under ``name``: URIs begin with ``scheme+``, names of prompts with ``name_``.

    The URI of a page begins with ``ui://scheme+``.
    """

    def rename(one: ResourceDefinition) -> ResourceDefinition:
        return replace(one, prefix=f"{scheme}+{one.prefix}")

    return ServerFeatures(
        tuple(map(rename, features.resources)),
        tuple(replace(one, name=f"{name}_{one.name}") for one in features.prompts),
        skills=tuple(replace(one, resource=rename(one.resource)) for one in features.skills),
        unlisted=tuple(one._replace(prefix=f"{scheme}+{one.prefix}") for one in features.unlisted),
    )


def with_scopes(features: ServerFeatures, scopes: tuple[str, ...] | None) -> ServerFeatures:
    """Return ``features`` for callers with ``scopes``; unchanged if that is None."""
    if scopes is None or not features.readers:
        return features
    own = scopes

    def set_scopes(one: DefinitionT) -> DefinitionT:
        completer = None if one.completer is None else replace(one.completer, scopes=own)
        return replace(one, reader=replace(one.reader, scopes=own), completer=completer)

    def set_skill_scopes(one: SkillDefinition) -> SkillDefinition:
        finder = None if one.finder is None else replace(one.finder, scopes=own)
        return replace(one, resource=set_scopes(one.resource), finder=finder)

    return ServerFeatures(
        tuple(map(set_scopes, features.resources)),
        tuple(map(set_scopes, features.prompts)),
        skills=tuple(map(set_skill_scopes, features.skills)),
        unlisted=tuple(one._replace(reader=replace(one.reader, scopes=own)) for one in features.unlisted),
    )


def write_messages(description: str, value: Json) -> dict[str, Json]:
    """Return what a prompt comes to: its description, and a message for each item that its function returned.

    A text, content, or other data is said by the user. What another server filled in is complete as it is.
    """
    if isinstance(value, dict) and value.keys() == {"description", "messages"} and isinstance(value["messages"], list):
        return {"description": value["description"] or description, "messages": value["messages"]}
    return {"description": description, "messages": [_write_message(one) for one in _list_items(value)]}


def read_texts(texts: Mapping[str, str], reader: Tool) -> dict[str, Json]:
    """Return the arguments that ``texts`` mean by the input schema of ``reader``; what does not fit stays a text."""
    properties = reader.input_schema.get("properties")
    known: dict[str, Json] = properties if isinstance(properties, dict) else {}
    return {name: _read_text(text, known.get(name)) for name, text in texts.items()}


def list_choices(reader: Tool, name: str) -> tuple[str, ...] | None:
    """Return the texts that the argument ``name`` may be; none if any text is, and None if there is no such one."""
    properties = reader.input_schema.get("properties")
    schema = properties.get(name) if isinstance(properties, dict) else None
    return tuple(_list_choices(schema)) if isinstance(schema, dict) else None


def _list_choices(schema: Mapping[str, Json]) -> list[str]:
    if schema.get("type") == "boolean":
        return ["true", "false"]
    choices, either = schema.get("enum"), schema.get("anyOf")
    found = [str(one) for one in choices if one is not None] if isinstance(choices, list) else []
    found += [schema["const"]] if isinstance(schema.get("const"), str) else []
    for one in either if isinstance(either, list) else ():
        found += _list_choices(one) if isinstance(one, dict) else []
    return found


def is_prompt_text(schema: Json) -> bool:
    """Return whether a value of ``schema`` can be entered as a text: a scalar, or a choice that has a text."""
    if not isinstance(schema, dict):
        return True
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        return any(is_prompt_text(one) for one in choices)
    return schema.get("type", "string") in ("string", "integer", "number", "boolean")


def _read_text(text: str, schema: Json) -> Json:
    wanted = schema.get("type") if isinstance(schema, dict) else None
    if wanted == "boolean" and text in ("true", "false"):
        return text == "true"
    if wanted not in ("integer", "number") or len(text) > _MAX_SHOWN:
        return text
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _list_items(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _write_message(one: Json) -> dict[str, Json]:
    if isinstance(one, dict) and one.keys() == {"content", "role"} and one["role"] in ("user", "assistant"):
        return {"role": one["role"], "content": one["content"]}
    return {"role": "user", "content": one}


def _read_description(schema: Json) -> str:
    text = schema.get("description") if isinstance(schema, dict) else None
    return text if isinstance(text, str) else ""


def _list_known(names: Iterable[str]) -> str:
    known = list(names)
    more = ", ..." if len(known) > _MAX_SHOWN else ""
    return f"There is: {', '.join(known[:_MAX_SHOWN])}{more}." if known else "None are available."
