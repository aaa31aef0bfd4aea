"""Read the arguments of a call from the command line: ``key=value``, by the tool's input schema.

Rules:
- A value is text where the schema accepts text. Elsewhere it is JSON where it is valid JSON, and else text.
- ``key:=value`` is always JSON, and a word that begins with ``{`` is an object with arguments. The
  call itself checks all arguments against the schema.
- ``key=@file`` is the content of a file, where the schema declares bytes. Elsewhere ``@`` is text like any other, so
  that no text of another person makes this program read a file.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from mimetypes import guess_type
from pathlib import Path
from types import NoneType
from typing import Any, Final

from toolwire.core.content import FILE_KEYWORD, UNTYPED, build_content
from toolwire.core.json_pointer import resolve_reference
from toolwire.core.model import Json, Kind, Problem, Tool
from toolwire.framing import jsontext
from toolwire.validation import compile_schema

_KINDS: Final[Mapping[type, str]] = {
    NoneType: "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_ANYTHING: Final = frozenset(_KINDS.values())
_CHOICES: Final = ("anyOf", "oneOf", "allOf")
_BRANCHES: Final = 100
_SHOWN: Final = 60
_MAX_FAULTS: Final = 20
_ENCODERS: Final[Mapping[Any, Callable[[bytes], bytes]]] = {"base64": b64encode, "base64url": urlsafe_b64encode}
_FILE_BYTES: Final = 32 * 1024 * 1024


def read_values(pairs: Iterable[str], given: Mapping[str, Json], tool: Tool) -> dict[str, Json] | Problem:
    """Return the arguments for ``tool``: those of ``given``, replaced and completed by ``pairs``.

    A key that comes more than once is a list. A key that the tool does not declare is a Problem, which also says what
    else is wrong.
    """
    # FU-59: all faults at once, as where a server looks at the arguments.
    faults: list[str] = []
    arguments = dict(given)
    texts: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if pair.startswith("{"):  # all arguments as one object, as --args takes them
            whole = read_object(pair)
            if isinstance(whole, Problem):
                faults.append(whole.message)
            else:
                arguments |= whole
        elif not equals or not key.rstrip(":"):
            faults.append(f"{pair[:_SHOWN]!r} is not a valid argument: write key=value, or key:=JSON.")
        elif not _is_text(pair):
            faults.append(f"{key!r} contains bytes that are not UTF-8.")
        else:
            texts.setdefault(key, []).append(text)
    for key, values in texts.items():
        value = _read_json_values(key[:-1], values) if key.endswith(":") else _read_declared_values(key, values, tool)
        if isinstance(value, Problem):
            faults.append(value.message)
        else:
            arguments[key.removesuffix(":")] = value
    unknown = [key for key in arguments if key not in tool.parameters]
    names = " and ".join(map(repr, unknown[:_MAX_FAULTS]))
    if unknown and tool.parameters and not tool.input_schema.get("additionalProperties"):
        takes = f"{tool.name} has no argument {names}. Its arguments are {', '.join(tool.parameters)}."
        known = {key: value for key, value in arguments.items() if key not in unknown}
        faults += [takes] if faults else [takes, *_list_misfits(known, tool)]
    elif unknown and not tool.parameters and tool.input_schema.get("properties") is not None:
        faults.append(f"{tool.name} takes no arguments, and {names} {'was' if len(unknown) == 1 else 'were'} given.")
    return _build_problem(" ".join(faults[:_MAX_FAULTS]).rstrip(".")) if faults else arguments


def _list_misfits(arguments: Mapping[str, Json], tool: Tool) -> list[str]:
    """Return what does not fit the schema of ``tool``, as one sentence in a list, or nothing."""
    try:
        misfit = compile_schema(tool.input_schema)(arguments)
    except ValueError:  # its check, which comes later, says so
        return []
    return [] if misfit is None else [misfit.message]


def read_object(text: str) -> dict[str, Json] | Problem:
    """Return the JSON object of ``--args``."""
    if not _is_text(text):
        return _build_problem("--args is not UTF-8")
    data = jsontext.read(text.encode())
    if isinstance(data, Problem):
        return _build_problem(f"--args: {data.message.removeprefix('The body ').rstrip('.')}")
    return (
        data
        if isinstance(data, dict)
        else _build_problem(f"--args must be one JSON object, not {jsontext.describe_type(data)}")
    )


def _read_json_values(key: str, texts: Sequence[str]) -> Json | Problem:
    values = [jsontext.read(text.encode()) for text in texts]
    if any(isinstance(value, Problem) for value in values):
        return _build_problem(f"{key!r} is not valid JSON. For text, write {key}=...")
    return values[0] if len(values) == 1 else values


def _read_declared_values(key: str, texts: Sequence[str], tool: Tool) -> Json | Problem:
    root = tool.input_schema
    schema = tool.parameters.get(key, {})
    kinds = _list_types(schema, root)
    read = _read_files(texts, schema, root)
    if isinstance(read, Problem):
        return read
    if not all(isinstance(text, str) for text in read):
        return read if len(read) > 1 or "string" not in kinds else read[0]
    texts = [str(text) for text in read]
    if len(texts) == 1:
        value = _read_value(texts[0], kinds)
        if isinstance(value, list) or not kinds <= {"array", "null"} or (value is None and "null" in kinds):
            return value
    elif "array" not in kinds:
        return _build_problem(f"{key!r} is given {len(texts)} times, but accepts one value")
    items = _list_types(_find_items(schema, root), root)
    return [_read_value(text, items) for text in texts]


def _read_files(texts: Sequence[str], schema: Json, root: Mapping[str, Any]) -> list[Any] | Problem:
    """Return ``texts``, with a file for each ``@file`` if the schema, or that of its items, is a file or bytes.

    A file that a tool takes with its type and name is a ``File``, and bytes are base64.
    """
    takes_type = any(
        FILE_KEYWORD in one for part in (schema, _find_items(schema, root)) for one in _list_branches(part, root)
    )
    encode = _find_encoder(schema, root) or _find_encoder(_find_items(schema, root), root)
    if encode is None:
        return list(texts)
    read: list[Any] = []
    for text in texts:
        content = _read_file(text[1:]) if text.startswith("@") else None
        if isinstance(content, Problem):
            return content
        if content is None:
            read.append(text)
        elif takes_type:
            name = Path(text[1:]).name
            read.append(build_content(content, guess_type(name)[0] or UNTYPED, name))
        else:
            read.append(encode(content).decode())
    return read


def _read_file(name: str) -> bytes | Problem:
    try:
        with Path(name).open("rb") as file:
            content = file.read(_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "this is not a file name"
        return _build_problem(f"{name[:_SHOWN]!r} cannot be read: {why}")
    if len(content) > _FILE_BYTES:
        return _build_problem(f"{name[:_SHOWN]!r} is larger than {_FILE_BYTES:,} bytes")
    return content


def takes_file(schema: Json, root: Mapping[str, Any]) -> bool:
    """Return whether an argument of ``schema`` is given as ``KEY=@FILE``."""
    return _find_encoder(schema, root) is not None


def _find_encoder(schema: Json, root: Mapping[str, Any]) -> Callable[[bytes], bytes] | None:
    """Return how bytes become a text that ``schema`` accepts; none if it also accepts a text that is no bytes."""
    texts = [branch for branch in _list_branches(schema, root) if "string" in _list_own_types(branch)]
    encodings = {str(branch.get("contentEncoding")) for branch in texts}
    return _ENCODERS.get(encodings.pop()) if len(encodings) == 1 else None


def _read_value(text: str, kinds: frozenset[str]) -> Json:
    if "string" in kinds and kinds != _ANYTHING:
        return text
    value = jsontext.read(text.encode())
    return text if isinstance(value, Problem) else value


def _list_types(schema: Json, root: Mapping[str, Any]) -> frozenset[str]:
    """Return the JSON types that ``schema`` accepts, or every type where it states none."""
    kinds: set[str] = set()
    for branch in _list_branches(schema, root):
        own = _list_own_types(branch)
        if not own and not any(word in branch for word in ("$ref", *_CHOICES)):
            return _ANYTHING
        kinds |= own
    return frozenset(kinds) or _ANYTHING


def _list_own_types(branch: Mapping[str, Any]) -> set[str]:
    match branch:
        case {"const": value}:
            return {_get_type(value)}
        case {"enum": list() as values}:
            return {_get_type(value) for value in values}
        case {"type": str() as kind}:
            return {kind}
        case {"type": list() as kinds}:
            return {kind for kind in kinds if isinstance(kind, str)}
        case _:
            return set()


def _find_items(schema: Json, root: Mapping[str, Any]) -> Json:
    """Return the schema of the items of the list that ``schema`` accepts."""
    return next((branch["items"] for branch in _list_branches(schema, root) if "items" in branch), {})


def _list_branches(schema: Json, root: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return ``schema`` with its references and branches, each once, and at most ``_BRANCHES`` of them."""
    found: list[Mapping[str, Any]] = []
    waiting: list[Json] = [schema]
    while waiting and len(found) < _BRANCHES:
        branch = waiting.pop(0)
        if not isinstance(branch, Mapping) or any(branch is known for known in found):
            continue
        found.append(branch)
        if "$ref" in branch:
            waiting.append(resolve_reference(root, branch["$ref"]))
        for word in _CHOICES:
            choices = branch.get(word)
            waiting.extend(choices[:_BRANCHES] if isinstance(choices, list) else ())
    return found


def _get_type(value: Json) -> str:
    return _KINDS.get(type(value), "object")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # the command line had bytes that are not UTF-8
        return False
    return True


def _build_problem(text: str) -> Problem:
    return Problem(kind=Kind.INVALID_ARGUMENTS, message=f"{text}.")
