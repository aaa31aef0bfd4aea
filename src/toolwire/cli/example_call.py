"""Write an example call of a tool: as a command line, and in Python."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from toolwire.client.discovery.local_files import file_url
from toolwire.client.transport.server_command import read_server_command
from toolwire.core.command_option import list_command_options
from toolwire.core.model import Json, Requirements, Tool
from toolwire.core.selection import DEFAULT_SELECTION
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import complete_url
from toolwire.framing import jsontext
from toolwire.hosting.options import RemoteOptions
from toolwire.hosting.targets.target import Target, UrlTarget

from .call_arguments import takes_file

_FILE: Final = "example.txt"
_USER_ID: Final = "ada@example.com"


_REACH: Final = (
    *("key_env", "header_env", "account", "allow_private", "allow_http", "ca_file", "protocol"),
    *("include", "server", "overlay", "follow", "any_version", "document_bytes"),
)
"""The options without which the call might not find the tool, or not be accepted. No secret is among them."""


def write_command(text: str, name: str, arguments: Mapping[str, Json], tool: Tool, reach: RemoteOptions) -> str:
    """Return the command line that calls ``tool`` as ``name`` with ``arguments``, quoted for a shell.

    It has the options by which the tool was reached, and one for each thing that the tool requires from its caller; the
    program then asks for the value.
    """
    is_url, needed = "://" in text, tool.requirements
    words = ["toolwire", "call", show_url(text) if is_url else text, name]
    words += [
        f"{key}=@{_FILE}" if _is_file(tool, key) else _write_pair(key, value, tool.parameters.get(key))
        for key, value in arguments.items()
    ]
    if needed and is_url:
        reach = replace(reach, protocol="otc")  # no other protocol transmits what a tool requires
    words += _list_reach(reach)
    words += [word for one in needed.authorization for word in ("--token", one.id)]
    words += [word for one in needed.secrets for word in ("--secret", one)]
    words += ["--user-id", _USER_ID] if needed.user_id else []
    return " ".join(map(shlex.quote, words))


def _list_reach(reach: RemoteOptions) -> Iterator[str]:
    for option in list_command_options(RemoteOptions):
        value = getattr(reach, option.field)
        if option.field not in _REACH or value in (option.default, ()):
            continue
        for one in value if option.is_list else (value,):
            yield f"--{option.name}"
            if not option.is_flag:
                yield str(one)


def _is_file(tool: Tool, name: str) -> bool:
    return takes_file(tool.parameters.get(name), tool.input_schema)


def _write_pair(key: str, value: Json, schema: Json) -> str:
    is_text = isinstance(value, str) and isinstance(schema, Mapping) and schema.get("type", "string") == "string"
    is_number = isinstance(value, int | float) and isinstance(schema, Mapping) and isinstance(schema.get("type"), str)
    written = value if isinstance(value, str) else jsontext.write(value).decode()
    if is_text or is_number:
        return f"{key}={written}"
    return f"{key}:={jsontext.write(value).decode()}"


def write_python(target: Target, name: str, arguments: Mapping[str, Json], tool: Tool, reach: RemoteOptions) -> str:
    """Return the lines of Python that make the same call, with the options by which the tool was reached."""
    url = "http://127.0.0.1:9627"
    if isinstance(target, UrlTarget):
        is_local = file_url(target.text) or read_server_command(target.text)
        url = target.text if is_local else show_url(complete_url(target.text))
    else:
        reach = RemoteOptions()
    lines = [] if isinstance(target, UrlTarget) else ["# while `toolwire serve` serves this target"]
    pairs = [
        f"{key!r}: {f'Path({_FILE!r})' if _is_file(tool, key) else repr(value)}" for key, value in arguments.items()
    ]
    given = f", {{{', '.join(pairs)}}}" if pairs else ""
    if any(_is_file(tool, key) for key in arguments):
        lines += ["from pathlib import Path"]
    context = _list_context(tool.requirements)
    if context:
        reach = replace(reach, protocol="otc")
    options, names = _write_options(reach), ["connect_sync"]
    if context:
        names += ["Context", "Secret"]
        options += f", context=Context({', '.join(context)})"
    if "Selection(" in options:
        names.append("Selection")
    if "os.environ" in options:
        lines.append("import os")
    lines += [
        f"from toolwire import {', '.join(sorted(names))}",
        "",
        f"with connect_sync({url!r}{options}) as remote:",
        f"    print(remote.call({name!r}{given}))",
    ]
    return "\n".join(lines)


def _write_options(reach: RemoteOptions) -> str:
    """Return the arguments of ``connect_sync`` that say what ``reach`` says."""
    chosen = {"include": reach.include, "server": reach.server or "", "elsewhere": reach.follow}
    chosen |= {"any_version": reach.any_version, "document_bytes": reach.document_bytes}
    selection = ", ".join(
        f"{name}={value!r}" for name, value in chosen.items() if value != getattr(DEFAULT_SELECTION, name)
    )
    headers = ", ".join(
        f"{name!r}: os.environ[{variable!r}]" for name, _, variable in (one.partition("=") for one in reach.header_env)
    )
    given = (
        ("protocol", repr(reach.protocol), reach.protocol),
        ("account", repr(reach.account), reach.account),
        ("api_key", f"os.environ[{reach.key_env!r}]", reach.key_env),
        ("headers", f"{{{headers}}}", headers),
        ("allow_private", repr([*reach.allow_private]), reach.allow_private),
        ("allow_http", repr([*reach.allow_http]), reach.allow_http),
        ("ca_file", repr(reach.ca_file), reach.ca_file),
        ("selection", f"Selection({selection})", selection),
        ("overlay", repr(reach.overlay), reach.overlay),
    )
    return "".join(f", {name}={written}" for name, written, value in given if value)


def _list_context(needed: Requirements) -> list[str]:
    """Return the arguments of a ``Context`` with what a tool requires."""
    tokens = ", ".join(f"{one.id!r}: Secret('...')" for one in needed.authorization)
    secrets = ", ".join(f"{one!r}: Secret('...')" for one in needed.secrets)
    parts = (("tokens", f"{{{tokens}}}", tokens), ("secrets", f"{{{secrets}}}", secrets))
    return [
        *(f"{name}={text}" for name, text, is_needed in parts if is_needed),
        *([f"user_id={_USER_ID!r}"] if needed.user_id else []),
    ]
