"""What may stand on the command line. The words only: what the commands do is imported when one is chosen."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from .exits import USAGE

HOST: Final = "127.0.0.1"
PORT: Final = 9627
_TARGET: Final = "URL | file.py | file.py:name | package.module:name"
_CONVERTED: Final = ("opentool", "otc", "oxp", "openapi", "jsonschema", "mcp")
_EPILOG: Final = f"""\
TARGET is {_TARGET}.
Exit codes: 0 ok, 1 the tool failed, 2 usage, 3 denied, 4 not reachable or no protocol found.
`toolwire COMMAND --help` says more."""


class Parser(argparse.ArgumentParser):
    """argparse, saying what is wrong the way the rest of the program does."""

    def error(self, message: str) -> NoReturn:
        """End the program with the usage and one sentence."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"toolwire: {message}\n")


def read_command(argv: Sequence[str] | None, version: str) -> argparse.Namespace:
    """Return what the command line says; ``command`` is the name of the command.

    Raises:
        SystemExit: after --help and --version (0), and for what names no command (2).
    """
    parser = _parser(version)
    arguments, rest = parser.parse_known_args(argv)
    # argparse takes a list like KEY=VALUE... in one piece; what stands behind a later option belongs to it too.
    late = [text for text in rest if not text.startswith("-")]
    if len(late) < len(rest) or (late and "more" not in arguments):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if late:
        setattr(arguments, arguments.more, [*getattr(arguments, arguments.more), *late])
    if arguments.command is None:
        parser.print_help(sys.stderr)
        parser.exit(USAGE)
    return arguments


def _parser(version: str) -> Parser:
    parser = Parser(
        prog="toolwire",
        description="Write a tool once, serve it on every open wire. Paste a URL, get tools, with consent.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"toolwire {version}")
    add = parser.add_subparsers(dest="command", metavar="COMMAND").add_parser
    _add_serve(_command(add, "serve", "serve tools on every protocol at once"))
    _add_tools(_command(add, "tools", "show what tools there are"))
    _add_call(_command(add, "call", "call a tool, with your consent"))
    _add_explain(_command(add, "explain", "show how it was found out what a URL speaks"))
    _add_check(_command(add, "check", "show everything that is wrong with documents"))
    _add_convert(_command(add, "convert", "write the tools of a document, a URL or code as another document"))
    return parser


def _command(add: Callable[..., Parser], name: str, summary: str) -> Parser:
    command = add(name, help=summary, description=f"{summary.capitalize()}.", allow_abbrev=False)
    command.add_argument("--debug", action="store_true", help="show the traceback of what went wrong")
    return command


def _add_serve(parser: Parser) -> None:
    parser.set_defaults(more="targets")
    parser.add_argument("targets", nargs="+", metavar="TARGET", help=f"{_TARGET}; several are served together")
    parser.add_argument("--host", default=HOST, help="the address to listen at (%(default)s)")
    parser.add_argument("--port", type=_port, default=PORT, help="0 takes a free one (%(default)s)")
    parser.add_argument(
        "--api-key", action="append", default=[], metavar="KEY", help="calls need it; repeat it for several keys"
    )
    parser.add_argument(
        "--api-key-file", metavar="FILE", help="keys, one a line (TOOLWIRE_API_KEYS holds keys too, between commas)"
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a Host name to answer to besides localhost"
    )
    parser.add_argument(
        "--allow-origin", action="append", default=[], metavar="ORIGIN", help="a web origin whose pages may call"
    )
    parser.add_argument(
        "--document", metavar="FILE", help="the OpenTool document of a class: file.py:Class or package.module:Class"
    )
    parser.add_argument("--reload", action="store_true", help="start anew when a Python file changes")
    parser.add_argument("--workers", type=_workers, default=1, metavar="N", help="processes that serve (1)")
    parser.add_argument("--access-log", action="store_true", help="print a line for each request")


def _add_tools(parser: Parser) -> None:
    parser.add_argument("target", metavar="TARGET", help=_TARGET)
    parser.add_argument("--json", action="store_true", help="print the tools as JSON")
    _add_remote(parser)


def _add_call(parser: Parser) -> None:
    parser.set_defaults(more="values")
    parser.add_argument("target", metavar="TARGET", help=_TARGET)
    parser.add_argument("name", metavar="NAME", help="the tool's name or id")
    parser.add_argument(
        "values",
        nargs="*",
        metavar="KEY=VALUE",
        help="an argument, read as the tool declares it; KEY:=JSON is always JSON; repeat a KEY for a list",
    )
    parser.add_argument("--args", metavar="JSON", help="the arguments as one JSON object, as @FILE, or - for stdin")
    parser.add_argument("--yes", action="store_true", help="approve, where the site lets calls be approved in advance")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    _add_remote(parser)


def _add_explain(parser: Parser) -> None:
    parser.add_argument("target", metavar="URL", help="what to look at; looking changes nothing there")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    _add_keys(parser)


def _add_check(parser: Parser) -> None:
    parser.set_defaults(more="files")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a document, JSON")
    parser.add_argument(
        "--kind",
        choices=["opentool", "otc", "openapi", "llm"],
        help="what the documents are (else each says it); opentool can be checked",
    )
    parser.add_argument("--strict", action="store_true", help="warnings fail too")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def _add_convert(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=f"a document, - for standard input, or {_TARGET}")
    parser.add_argument("--to", required=True, choices=_CONVERTED, metavar="KIND", help=", ".join(_CONVERTED))
    parser.add_argument("--kind", choices=(*_CONVERTED, "universal"), metavar="KIND", help="what the source is")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the document there, not to standard output")
    parser.add_argument("--strict", action="store_true", help="write no document, and end with 1, if anything is lost")
    parser.add_argument("--losses", metavar="FILE", help="write what is lost there too, as JSON")
    _add_remote(parser)


def _add_remote(parser: Parser) -> None:
    _add_keys(parser)
    parser.add_argument(
        "--protocol", metavar="P", help="look for this one only: openapi, opentool, otc or mcp (URLs only)"
    )


def _add_keys(parser: Parser) -> None:
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--key", metavar="KEY", help="the API key of the URL's server; it goes nowhere else")
    keys.add_argument("--key-env", metavar="NAME", help="take the key from this environment variable")


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) < 65_536:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")


def _workers(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 1_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: 1 to 1000")
