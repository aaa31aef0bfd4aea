"""Define the command line: its commands, options and help texts. The code of a command is imported when it runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from toolwire.core.selection import DOCUMENT_BYTES
from toolwire.core.url_display import show_urls

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
    """argparse with error messages in the style of this program."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and one sentence, and end the program."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"toolwire: {show_urls(message)}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print a help text or the version. argparse itself would hide that standard output cannot be written."""
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)


def read_command(argv: Sequence[str] | None, version: str) -> argparse.Namespace:
    """Return the options of the command line; ``command`` is the name of the command.

    Raises:
        SystemExit: with 0 after --help and --version, with 2 for a command line that is not valid.
    """
    parser = _build_parser(version)
    arguments, rest = parser.parse_known_args(argv)
    # argparse reads a list like KEY=VALUE... in one piece; the words behind a later option belong to it too.
    late = [text for text in rest if not text.startswith("-")]
    if len(late) < len(rest) or (late and "more" not in arguments):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if late:
        setattr(arguments, arguments.more, [*getattr(arguments, arguments.more), *late])
    if arguments.command is None:
        parser.print_help(sys.stderr)
        parser.exit(USAGE)
    return arguments


def _build_parser(version: str) -> Parser:
    parser = Parser(
        prog="toolwire",
        description="Write a tool once, serve it on every open wire. Paste a URL, get tools, with consent.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"toolwire {version}")
    add = parser.add_subparsers(dest="command", metavar="COMMAND").add_parser
    _add_serve(_add_command(add, "serve", "serve tools on every protocol at once"))
    _add_tools(_add_command(add, "tools", "show what tools there are"))
    _add_call(_add_command(add, "call", "call a tool, with your consent"))
    _add_chat(_add_command(add, "chat", "talk to a model that can use the tools at URLs, with your consent"))
    _add_explain(_add_command(add, "explain", "show how it was found out what a URL speaks"))
    _add_check(_add_command(add, "check", "show everything that is wrong with documents"))
    _add_conform(_add_command(add, "conform", "check whether a server does what its protocols ask"))
    _add_convert(_add_command(add, "convert", "write the tools of a document, a URL or code as another document"))
    _add_overlay(_add_command(add, "overlay", "write a starter overlay for an API that is not yours"))
    _add_size(_add_command(add, "size", "show what tools cost in tokens, for each provider"))
    _add_approvals(_add_command(add, "approvals", "answer questions that wait, and see what was decided"))
    _add_login(_add_command(add, "login", "sign in to a site, for later calls"))
    _add_command(add, "logout", "give back what a sign-in gave").add_argument("url", metavar="URL", help="the site")
    connections = _add_command(add, "connections", "list the sites you are signed in to")
    connections.add_argument("--json", action="store_true", help="print them as JSON")
    _add_lock(_add_command(add, "lock", "pin the definitions of the tools at URLs"))
    _add_diff(_add_command(add, "diff", "show what of a URL is not as it was locked"))
    return parser


def _add_command(add: Callable[..., Parser], name: str, summary: str) -> Parser:
    command = add(name, help=summary, description=f"{summary.capitalize()}.", allow_abbrev=False)
    command.add_argument("--debug", action="store_true", help="show the traceback of what went wrong")
    return command


def _add_serve(parser: Parser) -> None:
    parser.set_defaults(more="targets")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{_TARGET}; several are served together")
    parser.add_argument("--connections", metavar="FILE", help="serve what this list of connections names too")
    parser.add_argument("--host", default=HOST, help="the address to listen at (%(default)s)")
    parser.add_argument("--port", type=_port, default=PORT, help="0 takes a free one (%(default)s)")
    parser.add_argument(
        "--api-key", action="append", default=[], metavar="KEY", help="calls need it; repeat it for several keys"
    )
    parser.add_argument(
        "--api-key-file",
        metavar="FILE",
        help="a line each: KEY, or KEY NAME SCOPE... (TOOLWIRE_API_KEYS holds keys too, between commas)",
    )
    _add_tokens(parser)
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a Host name to answer to besides localhost"
    )
    parser.add_argument(
        "--allow-origin", action="append", default=[], metavar="ORIGIN", help="a web origin whose pages may call"
    )
    parser.add_argument(
        "--document", metavar="FILE", help="the OpenTool document of a class: file.py:Class or package.module:Class"
    )
    parser.add_argument(
        "--ledger", metavar="FILE", help="remember calls with a key in this SQLite file, so that none runs twice"
    )
    parser.add_argument(
        "--client-document", default="", metavar="URL", help="show here who toolwire is to sites that people sign in to"
    )
    parser.add_argument(
        "--rates",
        default="",
        metavar="WHERE",
        help="count calls against the limits of tools in this folder, or at a URL such as redis://HOST",
    )
    parser.add_argument("--reload", action="store_true", help="start anew when a Python file changes")
    parser.add_argument("--workers", type=_workers, default=1, metavar="N", help="processes that serve (1)")
    parser.add_argument("--access-log", action="store_true", help="print a line for each request")
    _add_agree(parser)
    parser.add_argument("--strict-jsonrpc", action="store_true", help="OpenTool: a result or an error, never both")
    parser.add_argument("--log", choices=["text", "json"], default="text", help="json: a line for each call too (text)")


def _add_tokens(parser: Parser) -> None:
    parser.add_argument("--jwt-secret-file", metavar="FILE", help="take tokens signed with this secret (HS256)")
    parser.add_argument("--jwks", metavar="URL|FILE", help="take tokens signed with these keys (RS256, ES256, EdDSA)")
    parser.add_argument("--jwt-issuer", default="", metavar="ISSUER", help="tokens must be from this issuer")
    parser.add_argument("--jwt-audience", default="", metavar="AUDIENCE", help="tokens must be for this audience")


def _add_tools(parser: Parser) -> None:
    parser.add_argument("target", metavar="TARGET", help=_TARGET)
    parser.add_argument("--json", action="store_true", help="print the tools as JSON")
    parser.add_argument("--tags", action="store_true", help="print the tags, and how many tools have each, instead")
    parser.add_argument("--findings", action="store_true", help="print what was left out or taken otherwise instead")
    _add_locked(parser)
    _add_remote(parser)
    _add_selection(parser)


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
    parser.add_argument(
        "--ask", choices=["terminal", "page", "store"], default="terminal", help="where to be asked (%(default)s)"
    )
    _add_agree(parser)
    parser.add_argument("--yes", action="store_true", help="approve, where the site lets calls be approved in advance")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    _add_locked(parser)
    _add_remote(parser)
    _add_selection(parser)


def _add_chat(parser: Parser) -> None:
    parser.set_defaults(more="targets")
    parser.add_argument("targets", nargs="+", metavar="URL", help="a site whose tools the model may use")
    parser.add_argument("--model", required=True, metavar="NAME", help="the model, as its provider calls it")
    parser.add_argument(
        "--api", choices=["openai", "anthropic"], default="openai", help="what the provider speaks (%(default)s)"
    )
    parser.add_argument("--base-url", metavar="URL", help="the provider, if not OpenAI or Anthropic themselves")
    parser.add_argument("--model-key-env", metavar="NAME", help="take the provider's key from this variable")
    _add_agree(parser)
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
        help="what the documents are (else each says it)",
    )
    parser.add_argument("--strict", action="store_true", help="warnings fail too")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def _add_conform(parser: Parser) -> None:
    parser.add_argument("target", metavar="URL", help="the server; only looks are taken there, unless --call is given")
    parser.add_argument(
        "--call", nargs=2, metavar=("TOOL", "ARGS"), help="a tool that may be called, and a JSON object it takes"
    )
    parser.add_argument("--json", action="store_true", help="print the reports as JSON")
    parser.add_argument("--markdown", action="store_true", help="print the reports as tables of Markdown")
    _add_remote(parser)


def _add_convert(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=f"a document, - for standard input, or {_TARGET}")
    parser.add_argument("--to", required=True, choices=_CONVERTED, metavar="KIND", help=", ".join(_CONVERTED))
    parser.add_argument("--kind", choices=(*_CONVERTED, "universal"), metavar="KIND", help="what the source is")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the document there, not to standard output")
    parser.add_argument("--strict", action="store_true", help="write no document, and end with 1, if anything is lost")
    parser.add_argument("--losses", metavar="FILE", help="write what is lost there too, as JSON")
    _add_remote(parser)


def _add_overlay(parser: Parser) -> None:
    parser.add_argument("target", metavar="URL", help="the site, or a file that is an OpenAPI document")
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there, not to standard output")


def _add_size(parser: Parser) -> None:
    parser.add_argument("target", metavar="TARGET", help=_TARGET)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    _add_remote(parser)
    _add_selection(parser)


def _add_approvals(parser: Parser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=["list", "allow", "deny", "revoke", "log"],
        help="what to do (list)",
    )
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="the question to answer, the grant to revoke")
    parser.add_argument("--always", action="store_true", help="allow: do not ask again, where the site lets it")
    parser.add_argument("--reason", default="", metavar="TEXT", help="deny: why; the assistant is told")
    parser.add_argument("--verify", action="store_true", help="log: check that no record was changed")
    parser.add_argument("--path", metavar="FOLDER", help="where decisions are kept (below XDG_STATE_HOME)")


def _add_lock(parser: Parser) -> None:
    parser.set_defaults(more="targets")
    parser.add_argument("targets", nargs="+", metavar="URL", help="whose tools to pin")
    _add_lock_file(parser)
    _add_remote(parser)


def _add_diff(parser: Parser) -> None:
    parser.add_argument("target", metavar="URL", help="what to compare with the lock")
    parser.add_argument("--json", action="store_true", help="print what changed as JSON")
    _add_lock_file(parser)
    _add_remote(parser)


def _add_lock_file(parser: Parser) -> None:
    parser.add_argument("--file", default="toolwire.lock", metavar="FILE", help="the lock (%(default)s)")


def _add_locked(parser: Parser) -> None:
    parser.add_argument("--locked", action="store_true", help="refuse what is not as toolwire.lock pins it")
    _add_lock_file(parser)


def _add_login(parser: Parser) -> None:
    parser.add_argument("url", metavar="URL", help="the site, as for every other command")
    parser.add_argument("--key", action="store_true", help="type a key, token or password instead; it is not shown")
    parser.add_argument("--scope", action="append", default=[], metavar="S", help="ask for this; repeat it for several")
    parser.add_argument("--device", action="store_true", help="sign in on another device: this one has no browser")
    parser.add_argument("--client-id", metavar="ID", help="the id that the site's authorization server knows you by")
    parser.add_argument("--client-secret-env", metavar="NAME", help="take that id's secret from this variable")
    parser.add_argument("--client-document", metavar="URL", help="the address of your client metadata document")
    parser.add_argument("--as-program", action="store_true", help="sign in as the client itself, with its secret")


def _add_agree(parser: Parser) -> None:
    parser.add_argument(
        "--agree", action="store_true", help="let tools run unasked that only the word of a site's own says may do so"
    )


def _add_remote(parser: Parser) -> None:
    _add_keys(parser)
    parser.add_argument(
        "--protocol", metavar="P", help="look for this one only: openapi, opentool, otc or mcp (URLs only)"
    )


def _add_selection(parser: Parser) -> None:
    which = parser.add_argument_group("which tools", "(--match, --safe-only and --no-deprecated for any protocol)")
    which.add_argument(
        "--include", choices=["declared", "all"], default="declared", help="all: those without x-llm too (%(default)s)"
    )
    which.add_argument("--tag", action="append", default=[], metavar="TAG", help="those with this tag; may be repeated")
    which.add_argument("--path", action="append", default=[], metavar="GLOB", help="those below such a path")
    which.add_argument("--method", action="append", default=[], metavar="M", help="those with this method")
    which.add_argument("--match", action="append", default=[], metavar="GLOB", help="those with such a name")
    which.add_argument("--safe-only", action="store_true", help="those that only read")
    which.add_argument("--no-deprecated", action="store_true", help="none that is about to end")
    which.add_argument("--server", metavar="URL", help="call this one, not what the document names")
    which.add_argument("--overlay", metavar="FILE", help="apply this OpenAPI Overlay to the document first")
    which.add_argument("--follow", action="store_true", help="read documents and files beside it that it refers to")
    which.add_argument(
        "--document-bytes", type=_bytes, default=DOCUMENT_BYTES, metavar="N",
        help="the largest document that is read (%(default)s)",
    )  # fmt: skip


def _add_keys(parser: Parser) -> None:
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--key", metavar="KEY", help="the API key of the URL's server; it goes nowhere else")
    keys.add_argument("--key-env", metavar="NAME", help="take the key from this environment variable")


def _bytes(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text[:19]) >= 1 and len(text) < 19:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes above 0")


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) < 65_536:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")


def _workers(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 1_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: 1 to 1000")
