"""List, read and fill in what a server offers beside tools: ``resources/...``, ``prompts/...`` and ``skills/...``.

A method exists only where there is something to offer, and so does its capability.
"""
# MC-08

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from toolwire.core import content
from toolwire.core.codec import Reading, make_pending
from toolwire.core.http import JSON_HEADERS, Response, make_response
from toolwire.core.model import Call, Json, Kind, Problem, Result, Tool, Value, make_call
from toolwire.core.server_features import (
    PromptDefinition,
    ResourceDefinition,
    ServerFeatures,
    list_choices,
    read_texts,
    write_messages,
)
from toolwire.framing import jsontext
from toolwire.framing.jsontext import get_object
from toolwire.framing.text_cleaning import clean

from . import consent_question, content_blocks, envelope, foreign_members, skill_entries
from .answers import (
    AskedMethod,
    Method,
    answer_page,
    build_answer,
    build_error,
    build_invalid,
    refuse_method,
    write_pages,
    write_static,
)
from .resource_subscriptions import can_subscribe
from .result import read_handshake_version, write_ending, write_opening
from .revision import COMPLETE, MAX_VALUES, RESOURCE_NOT_FOUND, SKILLS, STATELESS

_MAX_ARGUMENTS: Final = 100
_UNCACHED: Final = b'"ttlMs":0,"cacheScope":"private"'


def build_capabilities(features: ServerFeatures, *, notifies: bool = False) -> dict[str, Json]:
    """Return what the server declares to offer; with ``notifies`` also that it tells of changes."""
    lists: dict[str, Json] = {"listChanged": True} if notifies else {}
    capabilities: dict[str, Json] = {"tools": lists}
    if features.skills:
        capabilities["extensions"] = {SKILLS: {}}
    if features.resources or features.skills:
        subscribing: dict[str, Json] = {"subscribe": True} if notifies and can_subscribe(features) else {}
        capabilities["resources"] = {**subscribing, **lists}
    if features.prompts:
        capabilities["prompts"] = lists
    if features.readers:
        capabilities["completions"] = {}
    return capabilities


def build_feature_methods(
    features: ServerFeatures, members: Mapping[str, Json], server: Mapping[str, Json], end: bytes
) -> dict[str, Method]:
    """Return the methods for ``features``; the bytes of the lists are written here, once."""
    methods: dict[str, Method] = {}
    if features.skills:
        entries = [skill_entries.write(one, one.entry) for one in features.skills]
        methods |= {
            "skills/list": partial(answer_page, write_pages("skills", entries, members, end)),
            "skills/get": partial(_get_skill, features, members, server, end),
        }
    if features.resources or features.skills:
        plain = [_write_resource(one) for one in features.resources if not one.is_template]
        templates = [_write_resource(one) for one in features.resources if one.is_template]
        pages = write_pages("resourceTemplates", templates, members, end)
        methods |= {
            "resources/list": partial(answer_page, write_pages("resources", plain, members, end)),
            "resources/templates/list": partial(answer_page, pages),
            "resources/read": partial(_read_resource, features, server, end),
        }
    if features.prompts:
        prompts = [_write_prompt(one) for one in features.prompts]
        methods |= {
            "prompts/list": partial(answer_page, write_pages("prompts", prompts, members, end)),
            "prompts/get": partial(_get_prompt, features, server, end),
        }
    if features.readers:
        methods[COMPLETE] = partial(_complete, features, server, end)
    return methods


def _write_resource(one: ResourceDefinition) -> Json:
    facts: dict[str, Json] = {"name": one.name, "uriTemplate" if one.is_template else "uri": one.public_uri}
    if one.size is not None and not one.is_template:
        facts["size"] = one.size
    texts = _write_texts(title=one.title, description=one.description, mimeType=one.media_type)
    return foreign_members.write_reader_members(one.reader) | facts | texts


def _write_prompt(one: PromptDefinition) -> Json:
    arguments: list[Json] = [
        {"name": name, "required": is_required, **_write_texts(description=description)}
        for name, description, is_required in one.arguments
    ]
    texts = _write_texts(title=one.title, description=one.description)
    return foreign_members.write_reader_members(one.reader) | {"name": one.name, "arguments": arguments, **texts}


def _write_texts(**texts: str) -> dict[str, Json]:
    """Return ``texts`` without hidden characters, and without the empty ones."""
    return {name: clean(text).text for name, text in texts.items() if text}


def _read_resource(features: ServerFeatures, server: Mapping[str, Json], end: bytes, asked: AskedMethod) -> Reading:
    uri = asked.params.get("uri")
    if not isinstance(uri, str):
        return build_invalid(asked, '"uri" must be the URI of a resource, as a string.')
    found = features.find_resource(uri)
    if isinstance(found, Problem):
        return _build_not_found(asked, uri, found)
    resource, arguments = found

    def write(result: Value) -> bytes:
        contents = [_write_contents(one, uri, resource.media_type) for one in _list_parts(result.value)]
        answer = foreign_members.write_contents_members(result, {"contents": contents}, "contents")
        # What a function returns may differ at each read, and for each caller.
        return _join_end(answer, _UNCACHED, server, end)

    def refuse(problem: Problem) -> Response | None:
        is_unknown = resource.takes_uri and problem.kind in (Kind.NOT_FOUND, Kind.INVALID_ARGUMENTS)
        return _build_not_found(asked, uri, problem) if is_unknown else None

    return _build_pending(asked, resource.reader, arguments, write, server, refuse)


def _build_not_found(asked: AskedMethod, uri: str, problem: Problem) -> Response:
    if asked.status:  # since 2026-07-28 this is an error of the parameters, before that a code of its own
        return build_invalid(asked, problem.message)
    return build_error(asked.id, RESOURCE_NOT_FOUND, problem.message, 200, {"uri": uri})


def _get_skill(
    features: ServerFeatures, members: Mapping[str, Json], server: Mapping[str, Json], end: bytes, asked: AskedMethod
) -> Reading:
    """Return the entry of a skill; another server that has it is asked, as its files may have changed."""
    # QF-09
    uri = asked.params.get("uri")
    if not isinstance(uri, str):
        return build_invalid(asked, '"uri" must be the URI of the SKILL.md of a skill, as a string.')
    skill = features.find_skill(uri)
    if isinstance(skill, Problem):
        return build_invalid(asked, skill.message)
    if skill.finder is None:
        return build_answer(write_static({"skill": skill_entries.write(skill, skill.entry), **members}, end), asked)

    def write(result: Value) -> bytes:
        return _join_end({"skill": skill_entries.write(skill, result.value)}, _UNCACHED, server, end)

    return _build_pending(asked, skill.finder, {"uri": skill.resource.uri}, write, server)


def _get_prompt(features: ServerFeatures, server: Mapping[str, Json], end: bytes, asked: AskedMethod) -> Reading:
    name, given = asked.params.get("name"), asked.params.get("arguments")
    if not isinstance(name, str):
        return build_invalid(asked, '"name" must be the name of a prompt, as a string.')
    found = features.find_prompt(name)
    if isinstance(found, Problem):
        return build_invalid(asked, found.message)
    arguments = {} if given is None else given
    if not isinstance(arguments, dict) or not all(isinstance(one, str) for one in arguments.values()):
        return build_invalid(asked, f'"arguments" of {name} must be an object of strings.')
    about = _write_texts(description=found.description)

    def write(result: Value) -> bytes:
        written: list[dict[str, Json]] = write_messages("", result.value)["messages"]
        version = STATELESS if asked.status else read_handshake_version(asked.request)
        messages = [{**one, "content": _write_content(one["content"], version)} for one in written]
        answer = foreign_members.write_contents_members(result, {**about, "messages": messages}, "messages")
        return _join_end(answer, b"", server, end)

    return _build_pending(asked, found.reader, read_texts(arguments, found.reader), write, server)


def _write_content(value: Json, version: str) -> Json:
    return content_blocks.translate(content_blocks.write_block(value), version)


def _complete(features: ServerFeatures, server: Mapping[str, Json], end: bytes, asked: AskedMethod) -> Reading:
    """Return what an argument may be: the choices of its schema that begin with what the user has typed.

    The server of a gateway that has the prompt or template is asked instead, if it completes arguments.
    """
    argument = get_object(asked.params, "argument")
    name, typed = argument.get("name"), argument.get("value")
    if not isinstance(name, str) or not isinstance(typed, str):
        return build_invalid(asked, '"argument" must have a "name" and a "value", both strings.')
    found = _find_definition(features, get_object(asked.params, "ref"))
    if isinstance(found, Problem):
        return build_invalid(asked, found.message)
    if found.completer is not None:
        return _pass_on_completion(asked, found.completer, {"name": name, "value": typed}, server, end)
    choices = list_choices(found.reader, name)
    if isinstance(found, ResourceDefinition) and found.takes_uri:  # its variables are known to another server alone
        choices = ()
    if choices is None:
        return build_invalid(asked, f"{found.name} has no argument {name[:100]!r}.")
    fitting: list[Json] = [one for one in choices if one.lower().startswith(typed.lower())]
    shown = fitting[:MAX_VALUES]
    completion = {"values": shown, "total": len(fitting), "hasMore": len(fitting) > len(shown)}
    return build_answer(write_static({"completion": completion}, end), asked)


def _pass_on_completion(
    asked: AskedMethod, completer: Tool, argument: Json, server: Mapping[str, Json], end: bytes
) -> Reading:
    arguments: dict[str, Json] = {"argument": argument}
    known = get_object(get_object(asked.params, "context"), "arguments")
    if known:
        if len(known) > _MAX_ARGUMENTS or not all(isinstance(one, str) for one in known.values()):
            text = f'"arguments" of "context" must be an object of at most {_MAX_ARGUMENTS} strings.'
            return build_invalid(asked, text)
        arguments["context"] = {"arguments": dict(known)}

    def write(result: Value) -> bytes:
        return jsontext.write({"completion": result.value})[1:-1] + end

    return _build_pending(asked, completer, arguments, write, server)


def _find_definition(
    features: ServerFeatures, reference: Mapping[str, Json]
) -> PromptDefinition | ResourceDefinition | Problem:
    match reference:
        case {"type": "ref/prompt", "name": str(name)}:
            return features.find_prompt(name)
        case {"type": "ref/resource", "uri": str(uri)}:
            found = next((one for one in features.resources if one.public_uri == uri), None)
            text = f"Resource {uri[:200]!r} not found."
            return Problem(kind=Kind.INVALID_ARGUMENTS, message=text) if found is None else found
        case _:
            text = '"ref" must be {"type": "ref/prompt", "name": ...} or {"type": "ref/resource", "uri": ...}.'
            return Problem(kind=Kind.INVALID_ARGUMENTS, message=text)


def _build_pending(
    asked: AskedMethod,
    reader: Tool,
    arguments: dict[str, Json],
    write: Callable[[Value], bytes],
    server: Mapping[str, Json],
    refuse: Callable[[Problem], Response | None] = lambda _: None,
) -> Reading:
    def reply(result: Result, _: float) -> Response:
        if not isinstance(result, Value):
            # MC-09: the function behind a prompt or resource may ask the user, as a tool may.
            if result.kind is Kind.MISSING_REQUIREMENTS and (question := consent_question.read_question(result)):
                return Response(200, JSON_HEADERS, consent_question.write_form(asked.id, question, server))
            return refuse(result) or refuse_method(asked, result)
        return make_response((200, JSON_HEADERS, write_opening(asked.id) + write(result)))

    context = consent_question.add_input(envelope.read_trace(asked.params), asked.params)
    call: Call = make_call((reader, arguments, asked.request.id, context, ""))
    return make_pending((call, reply, True))


def _join_end(answer: dict[str, Json], fixed: bytes, server: Mapping[str, Json], end: bytes) -> bytes:
    """Return the members of ``answer``, then the ``fixed`` ones and the ``end`` of each result."""
    meta = answer.pop("_meta", None)
    if meta is not None:
        end = write_ending(server, meta)
    return jsontext.write(answer)[1:-1] + (b"," + fixed if fixed else b"") + end


def _list_parts(value: Json) -> list[Json]:
    """Return the parts of a resource: a list is several only if it holds texts and content alone."""
    if isinstance(value, list) and value and all(isinstance(one, str) or content.is_content(one) for one in value):
        return value
    return [value]


def _write_contents(part: Json, uri: str, media_type: str) -> Json:
    if content.is_content(part):
        return {"uri": uri, "mimeType": part["media_type"], "blob": content.get_base64(part)}
    if isinstance(part, str):
        return {"uri": uri, "mimeType": media_type or "text/plain", "text": part}
    return {"uri": uri, "mimeType": media_type or "application/json", "text": jsontext.write(part).decode()}
