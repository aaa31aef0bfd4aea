"""Convert a call's file arguments into the form that the tool accepts, before they are checked and shown.

Rules:
- Only the program's own objects are files: a ``Path``, ``Image``, ``Audio`` or ``File``, or a handle from the
  connection. A text is never used as a path, so a model or a site cannot make this program read a file.
- The question shows the user which file is sent to the site, with its size and digest.
"""
# MC-07, D-35

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Final, NamedTuple

from toolwire.core.content import (
    FILE_KEYWORD,
    UNTYPED,
    Audio,
    Content,
    File,
    Image,
    build_content,
    build_data_url,
    build_form_of,
    find_content_kind,
)
from toolwire.core.json_pointer import resolve_reference
from toolwire.core.model import Call, Json, Kind, Problem, Schema, Tool
from toolwire.core.resources import HANDLE_PREFIX, Resources

MAX_FILE_BYTES: Final = 32 * 1024 * 1024
_FILES: Final = (Path, Image, Audio, File)
_MAX_BRANCHES: Final = 100


class FileArguments(NamedTuple):
    """A call with its files as texts, and a description of each file by argument name."""

    call: Call
    files: Mapping[str, str]


def has_files(arguments: Any) -> bool:
    """Return whether ``arguments`` can contain a file or a handle. Only the first item of a list is checked."""
    return isinstance(arguments, Mapping) and any(
        _may_be_file(value[0] if type(value) is list and value else value) for value in arguments.values()
    )


def _may_be_file(value: Any) -> bool:
    return value.startswith(HANDLE_PREFIX) if type(value) is str else isinstance(value, _FILES)


def read_file_arguments(call: Call, resources: Resources | None) -> FileArguments | Problem:
    """Return ``call`` with its files in the form that its tool accepts, or why a file cannot be sent.

    A handle of ``resources`` is a file if the tool accepts one there. Otherwise it is an ordinary text.
    """
    arguments, files, faults = dict(call.arguments), dict[str, str](), dict[str, str]()
    for name, value in call.arguments.items():
        items: list[Any] = value if type(value) is list else [value]
        if not items or not _may_be_file(items[0]):
            continue
        form = _find_form(call.tool, name, in_list=type(value) is list)
        try:
            read = [_read(item, form, resources) for item in items]
        except ValueError as error:
            faults[name] = f"{error}."
            continue
        arguments[name] = [text for text, _ in read] if type(value) is list else read[0][0]
        if description := "; ".join(text for _, text in read if text):
            files[name] = description
    if faults:
        text = "; ".join(f"{name} {fault.removesuffix('.')}" for name, fault in faults.items())
        message = f"{call.tool.name} was not called: {text}."
        return Problem(kind=Kind.INVALID_ARGUMENTS, message=message, parameter_errors=faults)
    return FileArguments(call._replace(arguments=arguments), files)


def _read(item: Any, form: _FileForm, resources: Resources | None) -> tuple[Json, str]:
    """Return a file in the form that the tool accepts, and its description for the user. Return other values unchanged.

    Raises:
        ValueError: the file cannot be read or sent. The message is the end of a sentence.
    """
    if type(item) is str:
        resource = resources.find(item) if resources is not None and form.is_declared else None
        if resource is None:
            return item, ""
        content = build_content(resource.data, resource.media_type, resource.name)
        return form.write(content), _describe(f"{resource.name or 'bytes'} under the handle {item}", content)
    if not isinstance(item, _FILES):
        return item, ""
    if form.write is _refuse:  # before any file is read
        raise ValueError("takes no file")
    if isinstance(item, (Image, Audio, File)):
        return form.write(item), _describe(f"{item.name or 'bytes'} of this program", item)
    content = _read_path(item)
    return form.write(content), _describe(f"the file {item.absolute()}", content)


def _read_path(path: Path) -> Content:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError("cannot be read: invalid file name") from error
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"is larger than {MAX_FILE_BYTES:,} bytes")
    return build_content(data, guess_type(path.name)[0] or UNTYPED, path.name)


class _FileForm(NamedTuple):
    """How an argument accepts a file. ``is_declared`` means that its schema declares a file and not just a text."""

    write: Callable[[Content], Json]
    is_declared: bool


def _find_form(tool: Tool, name: str, *, in_list: bool) -> _FileForm:
    """Return how the argument ``name`` accepts a file.

    The media type and name are sent with it if possible, in a ``data:`` URL or an object.
    """
    root = tool.input_schema
    branches = list(_iterate_branches(tool.parameters.get(name, {}), root))
    if in_list:
        branches = [one for branch in branches if "items" in branch for one in _iterate_branches(branch["items"], root)]
    texts = [one for one in branches if one.get("type", "string") in ("string", ["string", "null"])]
    if any(FILE_KEYWORD in one for one in texts):
        return _FileForm(build_data_url, True)
    encodings = {str(one.get("contentEncoding")) for one in texts}
    for encoding, encode in (("base64", b64encode), ("base64url", urlsafe_b64encode)):
        if encoding in encodings:
            return _FileForm(partial(_encode, encode), True)
    if any(find_content_kind(one) for one in branches):
        return _FileForm(build_form_of, True)
    # A protocol such as OpenTool cannot name the encoding. A data: URL contains it.
    return _FileForm(build_data_url if texts or not tool.parameters else _refuse, False)


def _encode(encode: Callable[[bytes], bytes], content: Content) -> Json:
    return encode(content.data).decode()


def _refuse(_: Content) -> Json:
    raise ValueError("takes no file")


def _iterate_branches(schema: Json, root: Schema) -> Iterator[Schema]:
    """Yield ``schema`` and its meaningful alternatives, with references resolved."""
    waiting: list[Json] = [schema]
    for _ in range(_MAX_BRANCHES):
        if not waiting:
            return
        one = waiting.pop(0)
        if not isinstance(one, Mapping):
            continue
        if isinstance(one.get("$ref"), str):
            waiting.append(resolve_reference(root, one["$ref"]))
        choices = [choice for word in ("anyOf", "oneOf", "allOf") for choice in _get_list(one, word)]
        waiting += choices[:_MAX_BRANCHES]
        if not choices and "$ref" not in one:
            yield one


def _get_list(schema: Schema, word: str) -> list[Json]:
    found = schema.get(word)
    return found if isinstance(found, list) else []


def _describe(where: str, content: Content) -> str:
    """Return a description of what is sent, for the user: path or name, media type, size and digest."""
    digest = sha256(content.data).hexdigest()
    return f"{where} ({content.media_type}, {len(content.data):,} bytes, SHA-256 {digest})"
