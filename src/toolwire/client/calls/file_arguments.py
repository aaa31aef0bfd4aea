"""Turn the files among the arguments of a call into what the tool takes, before they are checked and shown.

Rules:
- Only an object of the program is a file: a ``Path``, ``Image``, ``Audio`` or ``File``, or a handle that the connection
  gave out. No text is ever used as a path, so no text of a model or a site makes this program read a file.
- The question to the user shows which file goes to the site, with its size and its digest.
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
    """A call with its files as texts, and what each of them is, by the name of its argument."""

    call: Call
    files: Mapping[str, str]


def has_files(arguments: Any) -> bool:
    """Return whether a file or a handle may be among ``arguments``; of a list, only the first item is looked at."""
    return isinstance(arguments, Mapping) and any(
        _may_be_file(value[0] if type(value) is list and value else value) for value in arguments.values()
    )


def _may_be_file(value: Any) -> bool:
    return value.startswith(HANDLE_PREFIX) if type(value) is str else isinstance(value, _FILES)


def read_file_arguments(call: Call, resources: Resources | None) -> FileArguments | Problem:
    """Return ``call`` with its files read and written as its tool takes them, or why a file cannot be sent.

    A handle of ``resources`` is a file where the tool takes one; elsewhere it is a text like any other.
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
    """Return a file in the form that a tool takes, and what it is, for the user; another value as it is.

    Raises:
        ValueError: it cannot be read or sent; the message is the end of a sentence.
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
    """How an argument takes a file. ``is_declared`` says that its schema speaks of one, and not of any text."""

    write: Callable[[Content], Json]
    is_declared: bool


def _find_form(tool: Tool, name: str, *, in_list: bool) -> _FileForm:
    """Return how the argument ``name`` takes a file.

    The type and name go with it wherever that is possible: in a ``data:`` URL, or in an object.
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
    # A protocol such as OpenTool cannot name the encoding; a data: URL says by itself what it is.
    return _FileForm(build_data_url if texts or not tool.parameters else _refuse, False)


def _encode(encode: Callable[[bytes], bytes], content: Content) -> Json:
    return encode(content.data).decode()


def _refuse(_: Content) -> Json:
    raise ValueError("takes no file")


def _iterate_branches(schema: Json, root: Schema) -> Iterator[Schema]:
    """Yield ``schema`` and the choices in it that say something, with references followed."""
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
    """Return what is sent, for the user: the file or the name, the type, the size and the digest."""
    digest = sha256(content.data).hexdigest()
    return f"{where} ({content.media_type}, {len(content.data):,} bytes, SHA-256 {digest})"
