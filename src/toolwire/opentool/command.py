"""Serve a tool as a command of its own: ``main(MyTool)`` reads its options from the command line."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any, NoReturn

from toolwire.core.errors import DefinitionError, ToolwireError
from toolwire.server.http.process import HOST, PORT

from .description import Given
from .keys import ADMIN_KEY, API_KEYS, read_keys
from .options import Option, read_options
from .serve_object import build_toolbox
from .server import OpenToolServer

OK = 0
FAILED = 1
USAGE = 2


def main(
    tool: Callable[..., Any],
    argv: Sequence[str] | None = None,
    *,
    document: Given | None = None,
    version: str | None = None,
) -> int:
    """Serve ``tool``, a class or factory function, with options from the command line. Return the exit code.

    Each parameter of its ``__init__`` is an option: ``db_path`` becomes ``--db-path``. A parameter without a default is
    required. If one is required and no argument is given, the help is printed. ``document`` describes a tool without
    ``load``. ``version`` is used if the tool has none.

    Raises:
        DefinitionError: a parameter of the tool cannot be an option.
        SystemExit: the command line asks for help or the version, or is not valid.
    """
    argv = sys.argv[1:] if argv is None else argv
    options = read_options(tool)
    parser = _parser(tool, options, document, version)
    if not argv and any(option.is_required for option in options):
        parser.print_help()
        return USAGE
    given = parser.parse_args(argv)
    try:
        made = tool(**{option.name: getattr(given, option.name) for option in options if option.name in given})
        _serve(made, given, document, version)
    except ToolwireError as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILED
    return OK


def _serve(tool: Any, given: argparse.Namespace, document: Given | None, version: str | None) -> None:
    keys = read_keys([*given.apiKeys, *given.opentoolServerApiKeys], given.apiKeysFile)
    admin = read_keys((), given.adminKeyFile, variable=ADMIN_KEY)
    if len(given.opentoolServerApiKeys) == 1:  # the daemon has made this key for itself, and stops its tools with it
        admin = admin or tuple(given.opentoolServerApiKeys)
    if len(admin) > 1:
        raise DefinitionError("More than one admin key is given. Give one.")
    server = OpenToolServer(
        tool,
        host=given.toolHost,
        port=given.toolPort,
        version=version or given.opentoolServerTag or "1.0.0",
        document=document,
        api_keys=keys,
        admin_key=admin[0] if admin else None,
    )
    if not keys and not _is_loopback(given.toolHost):
        text = (
            f"Anyone who can reach {given.toolHost} can call this tool. Require a key with --apiKeysFile or {API_KEYS}."
        )
        sys.stderr.write(f"warning: {text}\n")
    server.run(_announce)


def _announce(url: str) -> None:
    sys.stdout.write(f"{url}/opentool\nPress Ctrl-C to stop it.\n")
    sys.stdout.flush()


def _parser(
    tool: Callable[..., Any], options: Sequence[Option], document: Given | None, version: str | None
) -> argparse.ArgumentParser:
    summary = (inspect.getdoc(tool) or "").partition("\n\n")[0]
    parser = argparse.ArgumentParser(description=summary, allow_abbrev=False)
    parser.add_argument(
        "-v",
        "--version",
        action=_Version,
        nargs=0,
        const=lambda: _version(tool, document, version),
        help="print the version of this tool",
    )
    parser.add_argument("--toolHost", default=HOST, metavar="HOST", help=f"where to listen (default: {HOST})")
    parser.add_argument(
        "-t", "--toolPort", type=_port, default=PORT, metavar="PORT", help=f"0 takes a free one (default: {PORT})"
    )
    parser.add_argument(
        "-k", "--apiKeys", action="append", default=[], metavar="KEY",
        help=f"a key that calls need; repeat it for several. Other users can see it: better use {API_KEYS} or a file",
    )  # fmt: skip
    parser.add_argument("--apiKeysFile", metavar="FILE", help="a file with one key a line")
    parser.add_argument(
        "--adminKeyFile", metavar="FILE", help=f"a file with the key (or {ADMIN_KEY}) for POST /opentool/stop"
    )
    _add_daemon_options(parser)
    own = parser.add_argument_group("options of this tool") if options else parser
    for option in options:
        try:
            own.add_argument(*option.flags, dest=option.name, **option.settings)
        except argparse.ArgumentError as error:
            name = option.name
            raise DefinitionError(f"The parameter {name!r} has the name of an existing option. Rename it.") from error
    return parser


def _add_daemon_options(parser: argparse.ArgumentParser) -> None:
    """Add how an OpenTool Daemon and the guidelines for commands start a tool. The help does not list it."""
    # FD-10
    unlisted = argparse.SUPPRESS
    parser.add_argument("_start", nargs="?", choices=("start",), help=unlisted)
    parser.add_argument("--opentoolServerTag", help=unlisted)
    parser.add_argument("--opentoolServerHost", dest="toolHost", default=unlisted, help=unlisted)
    parser.add_argument("--opentoolServerPort", dest="toolPort", type=_port, default=unlisted, help=unlisted)
    parser.add_argument("--opentoolServerApiKeys", action="append", default=[], help=unlisted)


class _Version(argparse.Action):
    """Prints the version, which is only found out when it is asked for."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: Any = None,
    ) -> NoReturn:
        find: Callable[[], str] = self.const
        sys.stdout.write(f"{parser.prog} {find()}\n")
        parser.exit()


def _version(tool: Callable[..., Any], document: Given | None, version: str | None) -> str:
    """Return the version given, else that of the document, else what a tool without any has."""
    try:
        return version or build_toolbox(tool, document).catalog().version
    except ToolwireError:
        return "1.0.0"


def _port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1
    if not 0 <= number <= 65_535:
        raise argparse.ArgumentTypeError(f"a port must be a number from 0 to 65535, not {text!r}")
    return number


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
