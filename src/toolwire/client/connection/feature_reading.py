"""List and read what a server offers beside tools, and listen for changes of what it offers.

A read goes to the server that the user connected to and changes nothing there, so no user is asked for consent.
"""
# MC-08

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from toolwire.client.calls.retry import new_id
from toolwire.client.discovery.discover import find_codecs
from toolwire.core.codec import Flow, Peer
from toolwire.core.model import Call, Json, Kind, Problem, Result, Tool, Value
from toolwire.core.server_features import (
    NO_FEATURES,
    ServerFeatures,
    SkillDefinition,
    build_skill,
    name_reader_toolkit,
)
from toolwire.framing.skill_file import find_difference

from .connection import Connection

_URI_SCHEMA: dict[str, Json] = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}


def load_features(peer: Peer) -> Flow[ServerFeatures | Problem]:
    """Return what the server of ``peer`` offers beside tools; nothing where its protocol has no word for that."""
    (codec,) = find_codecs(peer.protocol)
    return NO_FEATURES if codec.features is None else (yield from codec.features.load(peer))


def listen_for_changes(peer: Peer) -> Flow[bool]:
    """Report each change of the catalog that the server of ``peer`` tells of; return whether to listen again."""
    (codec,) = find_codecs(peer.protocol)
    return False if codec.listen_for_changes is None else (yield from codec.listen_for_changes(peer))


def read_feature(connection: Connection, call: Call) -> Flow[Result]:
    """Return the result of ``call``, whose tool is the reader of a resource or a prompt."""
    (codec,) = find_codecs(connection.peer.protocol)
    if codec.features is None:
        return _build_unknown(connection.peer)
    return (yield from codec.features.read(connection.peer, call))


def with_features(connection: Connection, features: ServerFeatures) -> Connection:
    """Return ``connection`` with ``features`` in its catalog."""
    peer = connection.peer
    return replace(connection, peer=replace(peer, catalog=peer.catalog.with_features(features)))


def build_resource_call(uri: str) -> Call:
    """Return the call that reads ``uri``, which need not be on the list of the server."""
    reader = Tool(name="read", toolkit=name_reader_toolkit("", "resource"), input_schema=_URI_SCHEMA, safe=True)
    return Call(reader, {"uri": uri}, new_id())


def get_skill(connection: Connection, uri: str) -> Flow[SkillDefinition | Problem]:
    """Return the skill whose SKILL.md is at ``uri``, as the server publishes it now."""
    # QF-09
    reader = Tool(name="read", toolkit=name_reader_toolkit("", "skill"), input_schema=_URI_SCHEMA, safe=True)
    try:
        skill = build_skill({"uri": uri}, reader)
    except ValueError as error:
        return Problem(kind=Kind.INVALID_ARGUMENTS, message=f"{uri[:200]!r} is not the URI of a skill: {error}.")
    found = yield from read_feature(connection, Call(skill.finder or reader, {"uri": uri}, new_id()))
    return replace(skill, entry=found.value) if isinstance(found, Value) else found


def read_skill(connection: Connection, skill: SkillDefinition, path: str) -> Flow[Result]:
    """Return the file at ``path`` of ``skill``, if it is the one that the entry of the skill describes."""
    uri = skill.find_uri(path)
    if uri is None:
        text = f"The skill {skill.name} has no file {path[:200]!r}. get_skill() lists its files."
        return Problem(kind=Kind.NOT_FOUND, message=text)
    result = yield from read_feature(connection, build_resource_call(uri))
    if not isinstance(result, Value):
        return result
    difference = find_difference(skill, uri, result.value)
    text = f"{uri[:200]} was not read: {difference}. If the skill has changed, get_skill() returns its current files."
    return Problem(kind=Kind.BAD_ANSWER, message=text) if difference else result


def build_prompt_call(features: ServerFeatures, name: str, arguments: Mapping[str, str] | None) -> Call | Problem:
    """Return the call that fills in the prompt ``name``, or why there is none."""
    found = features.find_prompt(name)
    if isinstance(found, Problem):
        return found
    given = dict(arguments or {})
    missing = [one.name for one in found.arguments if one.is_required and one.name not in given]
    if missing:
        text = f"The prompt {name} needs {' and '.join(missing)}. Pass each one as text."
        return Problem(kind=Kind.INVALID_ARGUMENTS, message=text, details={"missing": list(missing)})
    return Call(found.reader, given, new_id())


def _build_unknown(peer: Peer) -> Problem:
    text = f"Resources and prompts are not available over {peer.protocol}. Connect to the server's MCP address."
    return Problem(kind=Kind.NOT_FOUND, message=text)
