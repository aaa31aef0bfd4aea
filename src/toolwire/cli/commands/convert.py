"""``toolwire convert``: write the tools of a document, a URL or code in another format, and list the losses."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from toolwire.cli.exits import FAILED, OK
from toolwire.cli.output_file import Output, OutputFile
from toolwire.cli.parser import read_remote
from toolwire.cli.targets.open_target import open_target
from toolwire.cli.terminal.screen import escaped, json_text, print_error
from toolwire.cli.terminal.slow_work import announce_if_slow
from toolwire.cli.terminal.terminal_approver import build_terminal_approver
from toolwire.convert import ConvertedDocument, convert
from toolwire.core.catalog import Catalog
from toolwire.core.errors import UsageError
from toolwire.core.model import Problem
from toolwire.core.selection import DOCUMENT_BYTES
from toolwire.core.url_display import show_url
from toolwire.hosting.input_file import check_input_size, read_input_file
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.hosting.targets.url_options import UrlOptions, read_url_options

from .check import detect_kind

_MAX_BYTES: Final = DOCUMENT_BYTES
_DOCUMENTS: Final = (".json", ".yaml", ".yml")


def run(arguments: argparse.Namespace) -> int:
    """Write the converted document and the losses. With --strict, a loss is a failure and no document is written."""
    if arguments.force and arguments.output is None and arguments.losses is None:
        raise UsageError("--force needs --output FILE or --losses FILE.")
    output, losses = _check_file(arguments, "output"), _check_file(arguments, "losses")
    options = read_url_options(
        read_remote(arguments), [arguments.source], discovery_s=arguments.timeout, offline=arguments.offline
    )
    text = _read_source(arguments.source, options)
    with announce_if_slow(f"Converting {show_url(arguments.source)}"):
        converted = convert(text, arguments.to, arguments.kind)
    if isinstance(converted, Problem):
        raise UsageError(f"{arguments.source}: {converted.message}")
    for loss in converted.losses:
        where = loss.pointer or "the whole"
        print(escaped(f"{where}: {loss.what}; {loss.instead} stands for it"), file=sys.stderr)
    if losses is not None:
        listed = [{"pointer": one.pointer, "what": one.what, "instead": one.instead} for one in converted.losses]
        text_of_losses = json_text(listed, indent=2)
        losses.write(Output(f"{text_of_losses}\n".encode(), "application/json"))
    if converted.losses and arguments.strict:
        count = len(converted.losses)
        print_error(
            f"{count} {'loss' if count == 1 else 'losses'} found, and --strict allows none. No document was written."
        )
        return FAILED
    _write(converted, output)
    return OK


def _read_source(text: str, options: UrlOptions) -> bytes | Catalog:
    if text == "-":
        if options != UrlOptions():
            raise UsageError(
                "--key, --protocol and the selection options need a URL or a file. They cannot be used with "
                "standard input."
            )
        return check_input_size(sys.stdin.buffer.read(_MAX_BYTES + 1), _MAX_BYTES, "standard input")
    path = Path(text)
    if path.suffix != ".py" and path.is_file():
        if options.key is not None or options.protocol is not None:
            raise UsageError("--key, --key-env and --protocol need a URL, but this source is a file.")
        if options == UrlOptions():
            return read_input_file(path, _MAX_BYTES, text)
        # Only the reader of OpenAPI documents can select; every other kind of document is converted whole.
        if detect_kind(read_input_file(path, _MAX_BYTES, text), text) != "openapi":
            raise UsageError(f"{path} is not an OpenAPI document. Tools can be selected only from OpenAPI documents.")
    if path.suffix in _DOCUMENTS and "://" not in text and len(path.parts) == 1:
        raise UsageError(f"File not found: {text}.")
    # A document is for people and programs, so it keeps what the site says of itself.
    with open_target(text, replace(options, include_site_description=True), build_terminal_approver("ask")) as source:
        catalog = source.catalog()
    return _remove_hints(catalog) if isinstance(read_target(text), UrlTarget) else catalog


def _remove_hints(catalog: Catalog) -> Catalog:
    """Return ``catalog`` without the hints of its connection, which are not part of a definition."""
    tools = tuple(replace(tool, hints={}) for tool in catalog.tools)
    return Catalog(title=catalog.title, version=catalog.version, description=catalog.description, tools=tools)


def _check_file(arguments: argparse.Namespace, option: str) -> OutputFile | None:
    name = getattr(arguments, option)
    return None if name is None else OutputFile(name, replace=arguments.force, option=f"--{option}")


def _write(converted: ConvertedDocument, output: OutputFile | None) -> None:
    if output is not None:
        output.write(Output(converted.text.encode(), "application/json"))
    elif sys.stdout.isatty():
        print(json_text(converted.document, indent=2))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(converted.text.encode())
