"""Define the command line: its commands, options and help texts. The code of a command is imported when it runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NoReturn, Protocol

from toolwire.core.command_option import REMOVED, CommandOption, build_record, list_command_options, read_whole_number
from toolwire.core.suggestion import find_nearest
from toolwire.core.url_display import show_urls
from toolwire.hosting.options import (
    READING_S,
    TOTAL_S,
    UPSTREAM_S,
    ListenOptions,
    RemoteOptions,
    ServeOptions,
    TokenOptions,
    read_port,
    read_processes,
    read_seconds,
)
from toolwire.server.options import ServerOptions

from .exits import USAGE
from .help_text import OTHER_WORDS, START, format_command, format_commands, format_usage

ANSWER_S: Final = 20
"""The time limit of one answer to a check, in seconds."""
_TARGET: Final = "URL | file.py | file.py:name | package.module:name | stdio:COMMAND | mcp.json:NAME"
_CONVERTED: Final = ("opentool", "otc", "oxp", "openapi", "mcp")
_HOSTS: Final = ("claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "zed", "codex", "gemini-cli")
EXAMPLES: Final = ("shop", "wallet", "model", "recipes")
_MAX_OTHER_COMMANDS: Final = 4
"""How many other commands with an option are named where it does not belong."""
WITH_SETTINGS: Final = frozenset(
    (
        *("call", "calls", "chat", "conform", "convert", "diff", "explain", "install", "lock", "login", "logout"),
        *("prompts", "resources", "serve", "show", "size", "tools", "find"),
    )
)
"""The commands whose options can stand in ``toolwire.toml``."""
_TIMEOUT: Final = next(option for option in list_command_options(RemoteOptions) if option.name == "timeout")
_ASK: Final = CommandOption(
    name="ask",
    default="terminal",
    choices=("terminal", "page", "store"),
    help="where toolwire asks you (terminal)",
    settings="program",
)
_LOCKED: Final = CommandOption(
    name="locked", default=False, help="refuse tools that differ from toolwire.lock", settings="urls", strict=True
)
_APPROVAL: Final = CommandOption(
    name="approval",
    choices=("per-call", "deny"),
    help="ask before every call, or deny all calls, even if the server requires no consent (URLs only)",
    settings="urls",
    is_harmless=True,
)
_MODEL: Final = (
    CommandOption(
        name="model", metavar="NAME", help="the model's name; required, here or in the settings", settings="program"
    ),
    CommandOption(
        name="api",
        default="openai",
        choices=("openai", "anthropic"),
        help="the provider's API (openai)",
        settings="program",
    ),
    CommandOption(name="base-url", metavar="URL", help="the base URL of another provider", settings="program"),
    CommandOption(
        name="model-key-env",
        metavar="NAME",
        help="the environment variable that holds the provider's key",
        settings="program",
    ),
)
_SIGN_IN: Final = (
    CommandOption(
        name="client-id", metavar="ID", help="your client ID at the server's authorization server", settings="target"
    ),
    CommandOption(
        name="client-secret-env",
        metavar="NAME",
        help="the environment variable that holds the client secret",
        settings="target",
    ),
    CommandOption(
        name="client-document", metavar="URL", help="the URL of your client metadata document", settings="target"
    ),
    CommandOption(
        name="sign-in-at",
        default=[],
        metavar="ORIGIN",
        help="another origin at which you can sign in",
        settings="urls",
    ),
)
_EPILOG: Final = f"""\
TARGET: {_TARGET}
Exit codes: 0 success, 1 the tool failed, 2 wrong usage, 3 denied,
4 not reachable or no protocol found, 5 the call is still running at its server.
`toolwire COMMAND --help` lists the options of a command, `toolwire --help-all` all commands."""


class CommandLineError(SystemExit):
    """The command line is not valid. The usage and the sentence are printed already."""

    def __init__(self, sentence: str) -> None:
        """Keep ``sentence`` for those who asked for JSON."""
        super().__init__(USAGE)
        self.sentence = sentence


class _ShowEverything(argparse.Action):
    """The option that prints the help of all options, in the order of their definitions."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Print it, and end the program."""
        print(argparse.ArgumentParser.format_help(parser), end="")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """argparse with error messages in the style of this program.

    ``of_actions`` has the options that belong to some actions of the command alone, with those actions. ``of_http``
    has those that mean nothing with ``--stdio``.
    """

    of_actions: Mapping[str, tuple[str, ...]] = {}
    of_http: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.options: dict[str, CommandOption] = {}
        """The options that are declared as such, by name. A file of settings may have some of them."""

    def error(self, message: str) -> NoReturn:
        """Print one sentence with what is wrong, and what the command takes, and end the program."""
        text = message.removeprefix("argument ").rstrip(".")
        usage = f" U{format_usage(self)[1:]}." if text.startswith("the following") else ""
        end = "" if text.endswith("?") else "."
        self.refuse(f"{text[0].upper()}{text[1:]}{end}{usage} `{self.prog} --help` lists the options.")

    def format_help(self) -> str:
        """Return what most users need. ``--help-all`` prints everything."""
        # FD-03
        places = next((one for one in self._actions if isinstance(one.choices, dict)), None)
        return format_command(self, self.options) if places is None else format_commands(self, places)

    def refuse(self, message: str) -> NoReturn:
        """Print one sentence, which says all that the usage would, and end the program."""
        sentence = show_urls(message)
        self._print_message(f"toolwire: {sentence}\n", sys.stderr)
        raise CommandLineError(sentence)

    def _get_positional_kwargs(self, dest: str, **kwargs: Any) -> dict[str, Any]:
        # argparse would name a list that can be empty among what is required.
        known: dict[str, Any] = super()._get_positional_kwargs(dest, **kwargs)
        return {**known, "required": False} if known.get("nargs") == "*" else known

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        value = super()._get_value(action, arg_string)
        if (
            isinstance(value, str)
            and action.choices
            and value not in action.choices
            and value.lower() in action.choices
        ):
            return value.lower()  # people write Cursor and MCP
        return value

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action.choices, dict) and value not in action.choices:  # the place of a command
            self.refuse(_explain_no_command(str(value), action.choices))
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = find_nearest(str(value), map(str, action.choices or ()))
            if near:
                error.message = f"{error.message}; did you mean {near!r}?"
            raise

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
    given = sys.argv[1:] if argv is None else argv
    words = [*given[1:2], "--help"] if given[:1] == ["help"] else given  # `help COMMAND` is `COMMAND --help`
    arguments, rest = parser.parse_known_args(words)
    # argparse reads a list like KEY=VALUE... in one piece; the words behind a later option belong to it too.
    late = [text for text in rest if not text.startswith("-")]
    if len(late) < len(rest) or (late and "more" not in arguments):
        _refuse_words(parser, arguments.command, rest)
    if late:
        setattr(arguments, arguments.more, [*getattr(arguments, arguments.more), *late])
    if arguments.command is None:
        parser.exit(USAGE, START)
    command = _find_commands(parser)[arguments.command]
    if command.of_actions:
        _refuse_options_of_others(command, arguments, list_given(given, version))
    if command.of_http and arguments.stdio:
        _refuse_options_of_http(command, list_given(given, version))
    return arguments


def _refuse_options_of_http(command: Parser, given: frozenset[str]) -> None:
    """Refuse an option of ``given`` that ``--stdio`` would ignore. In a file of settings, it is for other servers."""
    for option in command._actions:
        if option.dest in command.of_http.intersection(given):
            command.refuse(
                f"--stdio serves one MCP host over standard input and output. Leave out {option.option_strings[-1]}."
            )


def _refuse_options_of_others(command: Parser, arguments: argparse.Namespace, given: frozenset[str]) -> None:
    """Refuse an option of ``given`` that belongs to another action: it would be ignored."""
    for option in command._actions:
        actions = command.of_actions.get(option.dest)
        if actions is not None and option.dest in given and arguments.action not in actions:
            belongs = " and ".join(f"`{one}`" for one in actions)
            command.refuse(
                f"`{arguments.command} {arguments.action}` does not accept {option.option_strings[-1]}. "
                f"That option is for {belongs}."
            )


def list_given(argv: Sequence[str], version: str) -> frozenset[str]:
    """Return the destinations of the arguments that a valid command line gives, and not those with their defaults."""
    return frozenset(vars(_build_parser_without_defaults(version).parse_known_args(argv)[0]))


def list_settable_options(version: str) -> dict[str, dict[str, CommandOption]]:
    """Return the options that settings may have, by command and name."""
    return {
        name: {option.name: option for option in command.options.values() if option.settings}
        for name, command in list_commands(version).items()
        if name in WITH_SETTINGS
    }


def read_remote(arguments: argparse.Namespace) -> RemoteOptions:
    """Return the options of a command about servers elsewhere; those that it does not have are their defaults."""
    return build_record(RemoteOptions, vars(arguments))


def list_commands(version: str) -> dict[str, Parser]:
    """Return the parser of each command, by its name."""
    return _find_commands(_build_parser(version))


def _find_commands(parser: Parser) -> dict[str, Parser]:
    return next(one.choices for one in parser._actions if isinstance(one.choices, dict))


def _explain_no_command(word: str, commands: Iterable[str]) -> str:
    """Return why ``word`` cannot stand in the place of a command, and what was probably meant."""
    target = show_urls(word)[:100]
    if "://" in word:
        return f"Write a command before the URL: `toolwire tools {target}` lists its tools."
    if word.endswith(".py"):
        return (
            f"Write a command before the file: `toolwire serve {target}` serves it, and `toolwire tools "
            f"{target}` lists its tools."
        )
    if word in OTHER_WORDS:
        return f"Unknown command {word!r}. {OTHER_WORDS[word]}"
    near = find_nearest(word, commands)
    hint = f" Did you mean {near}?" if near else ""
    return f"Unknown command {target!r}.{hint} `toolwire --help` lists all commands."


def _refuse_words(parser: Parser, name: str | None, rest: Sequence[str]) -> NoReturn:
    """End the program because of the words ``rest``, which the command called ``name`` does not have."""
    commands = _find_commands(parser)
    command = parser if name is None else commands[name]
    help_ = f"`{command.prog} --help`"
    # What follows the option may be a secret, and is not repeated.
    option = next((word.partition("=")[0] for word in rest if word.startswith("-")), "")
    known = command._option_string_actions
    if not option:
        command.error(f"Unexpected argument {rest[0]!r}. {help_} shows the usage.")
    if option in known:
        command.refuse(f"Write {option} after the command: {command.prog} {option}.")
    others = [other for other, one in commands.items() if option in one._option_string_actions]
    names = [one for one in known if one.startswith("--")]
    # An option of another command was not mistyped; only a name within a name is a likely slip then.
    near = find_nearest(option, (one for one in names if not others or one[1:] in option))
    if instead := REMOVED.get(option.lstrip("-")):
        command.refuse(f"{command.prog} has no option {option}. {instead}.")
    if name == "gateway" and "serve" in others:
        hint = f": it stands in the file, as {option[2:]}."
    elif len(others) > _MAX_OTHER_COMMANDS:
        hint = "; other commands have it."
    else:
        hint = f"; {_join_words(others)} {'have' if len(others) > 1 else 'has'} it." if others else "."
    meant = f" Did you mean {near}?" if near else ""
    command.refuse(f"{command.prog} has no option {option}{hint}{meant} {help_} lists the options.")


def _join_words(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


@cache
def _build_parser(version: str) -> Parser:
    """Return the parser of all commands, which nothing may change. It is created once: that takes ten milliseconds."""
    return _create_parser(version)


@cache
def _build_parser_without_defaults(version: str) -> Parser:
    """Return a parser of all commands, which nothing may change: what is not given is not in its result."""
    parser = _create_parser(version)
    for command in _find_commands(parser).values():
        for action in command._actions:
            if action.option_strings or action.choices is None:  # else argparse would look for the default among them
                action.default = argparse.SUPPRESS
    return parser


def _create_parser(version: str) -> Parser:
    parser = Parser(
        prog="toolwire",
        description="Write a tool once and serve it over every open tool protocol."
        " Paste a URL and use its tools, with consent.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_help_all(parser)
    parser.add_argument("-V", "--version", action="version", version=f"toolwire {version}")
    add = parser.add_subparsers(dest="command", metavar="COMMAND").add_parser
    _add_example(_add_command(add, "example", "write an example file of tools"))
    _add_serve(_add_command(add, "serve", "serve tools over every protocol"))
    _add_work(_add_command(add, "work", "run long calls that servers hand to workers"))
    _add_gateway(_add_command(add, "gateway", "serve, check, list, add or remove upstreams in toolwire.toml"))
    _add_users(_add_command(add, "users", "list, add, remove or sign out a gateway's users"))
    _add_install(_add_command(add, "install", "add tools to an MCP host, such as Claude Desktop"))
    _add_tools(_add_command(add, "tools", "list the tools of a target"))
    _add_state(_add_command(add, "state", "back up, check and restore what a server stores"))
    _add_find(_add_command(add, "find", "find tools by words, as a model does"))
    _add_show(_add_command(add, "show", "show a tool's arguments and an example call"))
    _add_call(_add_command(add, "call", "call a tool, with your consent"))
    _add_calls(_add_command(add, "calls", "list, show, wait for or cancel long calls"))
    _add_resources(_add_command(add, "resources", "list or read a target's resources"))
    _add_prompts(_add_command(add, "prompts", "list or fill in a target's prompts"))
    _add_chat(_add_command(add, "chat", "chat with a model that uses tools, with your consent"))
    _add_explain(_add_command(add, "explain", "show how a URL's protocols were found"))
    _add_check(_add_command(add, "check", "list the faults in documents and tools"))
    _add_conform(_add_command(add, "conform", "check that a server conforms to its protocols"))
    _add_convert(_add_command(add, "convert", "convert tools from one kind of document to another"))
    _add_publish(_add_command(add, "publish", "write the registry entry of an MCP server"))
    _add_size(_add_command(add, "size", "count the tokens that the tools use with each provider"))
    _add_approvals(_add_command(add, "approvals", "answer questions, and list permissions and decisions"))
    _add_console(_add_command(add, "console", "open the console: questions, permissions, decisions"))
    _add_login(_add_command(add, "login", "sign in to a server"))
    logout = _add_command(add, "logout", "revoke and delete a server's tokens")
    _add_value(logout, "url", "URL", "the server, or a stdio:COMMAND that you trusted")
    _add_options(logout, RemoteOptions, "account")
    _add_timeout(logout, UPSTREAM_S, "time limit for revoking the tokens, in seconds")
    _add_network(logout)
    connections = _add_command(add, "connections", "list the servers you are signed in to")
    _add_flag(connections, "--json", "print the list as JSON")
    _add_lock(_add_command(add, "lock", "pin tool definitions in a lock file"))
    _add_diff(_add_command(add, "diff", "show how a server differs from the lock file"))
    _add_settings(_add_command(add, "settings", "show or check the settings in toolwire.toml"))
    _add_command(add, "completion", "print a script for shell completion").add_argument(
        "shell", choices=["bash", "zsh", "fish"], help="the shell"
    )
    return parser


def _add_command(add: Callable[..., Parser], name: str, summary: str) -> Parser:
    command = add(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False)
    _add_help_all(command)
    _add_flag(command, "--debug", "print the traceback of an error")
    return command


def _add_flag(to: _Container, name: str, text: str) -> None:
    to.add_argument(name, action="store_true", help=text)


def _add_value(to: _Container, name: str, metavar: str | tuple[str, str], text: str, **more: Any) -> None:
    to.add_argument(name, metavar=metavar, help=text, **more)


def _add_optional(parser: Parser, name: str, metavar: str, text: str) -> None:
    _add_value(parser, name, metavar, text, nargs="?", default="")


def _add_action(parser: Parser, actions: Mapping[str, str], default: str = "") -> None:
    """Add the word that says what the command does: one of ``actions``, each with what it means."""
    text = "; ".join(f"{name}: {meaning}" for name, meaning in actions.items())
    more: dict[str, Any] = {"nargs": "?", "default": default} if default else {}
    _add_value(parser, "action", "ACTION", text, choices=list(actions), **more)


def _add_list(to: _Container, name: str, metavar: str, text: str) -> None:
    to.add_argument(name, action="append", default=[], metavar=metavar, help=text)


def _add_words(parser: Parser, name: str, metavar: str, text: str, nargs: str = "*") -> None:
    """Add a list of words, some of which may stand behind a later option."""
    parser.set_defaults(more=name)
    parser.add_argument(name, nargs=nargs, metavar=metavar, help=text)


def _add_output(parser: Parser, text: str, force: str = "overwrite the --output file if it exists") -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help=text)
    _add_flag(parser, "--force", force)


def _add_help_all(parser: Parser) -> None:
    parser.add_argument(
        "--help-all",
        action=_ShowEverything,
        nargs=0,
        dest=argparse.SUPPRESS,
        default=argparse.SUPPRESS,
        help="show every option and exit",
    )


def _add_example(parser: Parser) -> None:
    _add_value(parser, "name", "NAME", "the example (%(default)s)", nargs="?", default=EXAMPLES[0], choices=EXAMPLES)
    _add_output(parser, "write the example to this file or folder", "overwrite the file if it exists")
    _add_flag(parser, "--list", "list the examples without writing one")


def _add_serve(parser: Parser) -> None:
    _add_words(parser, "targets", "TARGET", f"one or more of {_TARGET}")
    _add_options(parser, ListenOptions, "host", "port")
    _add_options(parser, ServeOptions, "api_key_file")
    _add_options(parser, TokenOptions)
    _add_options(parser, ServerOptions)
    _add_options(parser, ListenOptions, "tls_cert", "tls_key", "root_path", "trusted_proxies")
    _add_options(parser, ServeOptions, "document", "works")
    _add_flag(parser, "--stdio", "speak MCP on standard input and output; for MCP hosts that start a program")
    _add_flag(parser, "--reload", "restart when a Python file changes")
    _add_options(parser, ListenOptions, "workers", "access_log")
    _add_options(parser, ServeOptions, "metrics_address", "otlp", "agree", "returns")
    _add_options(parser, RemoteOptions, "include_site_description")
    _add_options(parser, ServeOptions, "log")
    _add_upstream_timeout(parser)
    _add_remote_tools(parser)
    of_callers = {option.field for option in list_command_options(TokenOptions)} | {"api_key_file", "api_keys"}
    of_pages = {"private", "hosts", "origins", "strict_jsonrpc", "client_document"}
    listening = {option.field for option in list_command_options(ListenOptions)} | {"reload", "metrics_address"}
    parser.of_http = frozenset(of_callers | of_pages | listening)


class _Container(Protocol):
    """A parser, or a group of its options."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        """Add one option."""
        ...


def _add_options(parser: Parser, record: type, *names: str, into: _Container | None = None) -> None:
    """Add the options of ``record``, or those of its fields ``names``, under the heading ``into``."""
    for option in list_command_options(record):
        if not names or option.field in names:
            _add_option(parser, option, into)


def _add_option(parser: Parser, option: CommandOption, into: _Container | None = None) -> None:
    more: dict[str, Any] = {"metavar": option.metavar, "choices": option.choices}
    if option.read is not None:
        more["type"] = _name_faults(option.read)
    if option.is_flag:
        more = {"action": "store_false" if option.default else "store_true"}
    elif option.is_list:
        more["action"] = "append"
    parser.options[option.name] = option
    (into or parser).add_argument(
        f"--{option.name}",
        dest=option.field or option.name.replace("-", "_"),
        default=option.default,
        help=option.help.replace("%", "%%"),
        **more,
    )


@cache
def _name_faults(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return ``read`` as argparse wants it: the sentence of a ValueError is what its user reads."""

    def read_text(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read_text


def _add_work(parser: Parser) -> None:
    _add_words(parser, "targets", "TARGET", f"the servers' targets: {_TARGET}")
    _add_options(parser, ServerOptions, "state", "wake", "limits")
    _add_value(parser, "--jobs", "N", "how many calls run at the same time (10)", type=_workers, default=10)
    _add_value(
        parser,
        "--grace",
        "SECONDS",
        "seconds for running calls after SIGTERM; after that, other workers run them again if that is safe (30)",
        type=_seconds,
        default=30,
    )
    _add_options(parser, ServeOptions, "agree", "log")
    _add_upstream_timeout(parser)
    _add_remote_tools(parser)


def _add_gateway(parser: Parser) -> None:
    _add_action(
        parser,
        {
            "run": "serve, and reload the file on SIGHUP",
            "check": "connect to each upstream",
            "list": "print them",
            "add": "connect to one and add it to the file",
            "remove": "remove one from the file",
            "agree": "trust an upstream's program, in the file. A running gateway applies what add and remove change",
        },
    )
    _add_optional(parser, "target", "TARGET", f"add: {_TARGET}; remove, check, agree: the name of an upstream")
    _add_value(parser, "--file", "FILE", "the gateway's file (%(default)s)", default="toolwire.toml")
    _add_value(parser, "--name", "NAME", "add: the upstream's name (default: its host name)")
    _add_flag(parser, "--no-check", "add: do not connect to the upstream first")
    _add_flag(parser, "--json", "check, list: print the upstreams as JSON")
    _add_options(parser, ServeOptions, "agree")
    _add_options(parser, RemoteOptions, "include_site_description")
    _add_upstream_timeout(parser)
    _add_remote_tools(parser)
    of_add = {one.dest for one in parser._actions if one.option_strings} - {"help", "debug", "file", "json"}
    parser.of_actions = {**dict.fromkeys(of_add, ("add",)), "json": ("check", "list")}


def _add_users(parser: Parser) -> None:
    _add_action(
        parser,
        {
            "list": "print the users",
            "add": "add one, and ask for the password",
            "password": "change it",
            "sign-out": "end all sessions and apps",
            "remove": "delete the user and their credentials",
        },
    )
    _add_optional(parser, "name", "NAME", "the user's sign-in name")
    _add_value(parser, "--file", "FILE", "the gateway's file (%(default)s)", default="toolwire.toml")
    _add_flag(parser, "--json", "print the result as JSON")


def _add_state(parser: Parser) -> None:
    _add_action(
        parser,
        {
            "backup": "write the state to FILE while servers use it",
            "restore": "restore FILE to an empty location",
            "check": "read all of FILE or, without it, of the state",
        },
    )
    _add_optional(parser, "backup", "FILE", "the backup file")
    _add_value(parser, "--state", "WHERE", "a folder, or postgresql://HOST/DATABASE (TOOLWIRE_STATE)", default="")
    _add_flag(
        parser,
        "--keep-permissions",
        "restore: keep answers, permissions and sign-ins; only if nothing ran since the backup",
    )
    _add_flag(parser, "--json", "print the result as JSON")
    parser.of_actions = {"keep_permissions": ("restore",)}


def _add_install(parser: Parser) -> None:
    _add_value(parser, "host", "HOST", ", ".join(_HOSTS), choices=_HOSTS)
    _add_words(parser, "targets", "TARGET", f"one or more of {_TARGET}")
    _add_value(parser, "--name", "NAME", "the server's name in the MCP host (default: from the target)")
    _add_flag(parser, "--project", "install for the project in this folder only")
    _add_value(parser, "--file", "FILE", "change this file instead of the MCP host's own file")
    _add_flag(parser, "--print", "print the change without writing it")
    _add_flag(parser, "--replace", "overwrite another server with this name")
    _add_flag(parser, "--remove", "remove the server from the MCP host")
    _add_options(parser, ServeOptions, "document")
    _add_options(parser, ServerOptions, "state", "wake", "limits", "consent", "find", "pins", "result_limit")
    _add_options(parser, ServeOptions, "agree", "returns")
    _add_options(parser, RemoteOptions, "include_site_description")
    _add_upstream_timeout(parser)
    _add_offline(parser)
    _add_remote_tools(parser)


def _add_tools(parser: Parser) -> None:
    _add_value(parser, "target", "TARGET", _TARGET)
    _add_flag(parser, "--json", "print the tools as JSON")
    _add_value(parser, "--find", "WORDS", "list only tools that match these words, best first")
    _add_flag(parser, "--tags", "list the tags with the number of tools")
    _add_flag(parser, "--findings", "list what toolwire left out or repaired")
    _add_locked(parser)
    _add_reading(parser)


def _add_find(parser: Parser) -> None:
    _add_value(parser, "target", "TARGET", _TARGET)
    _add_words(parser, "words", "WORD", "what the tool is for, or its name", "+")
    _add_value(parser, "--limit", "N", "describe at most N tools (%(default)s)", type=_most_found, default=8)
    _add_flag(parser, "--json", "print the tools that were found as JSON")
    _add_locked(parser)
    _add_reading(parser)


def _add_show(parser: Parser) -> None:
    _add_value(parser, "target", "TARGET", _TARGET)
    _add_value(parser, "name", "TOOL", "the tool's name or id")
    _add_flag(parser, "--json", "print the tool and the example as JSON")
    _add_locked(parser)
    _add_reading(parser)


def _add_call(parser: Parser) -> None:
    _add_value(parser, "target", "TARGET", _TARGET)
    _add_value(parser, "name", "NAME", "the tool's name or id")
    _add_words(
        parser,
        "values",
        "KEY=VALUE",
        "an argument of the tool; KEY:=JSON passes JSON, KEY=@FILE a file; repeat KEY for a list",
    )
    _add_value(parser, "--args", "JSON", "all arguments as a JSON object; or @FILE, or - for standard input")
    _add_option(parser, _ASK)
    _add_options(parser, ServeOptions, "agree")
    _add_flag(
        parser,
        "--yes",
        "approve this one call in advance; if the server allows that. Only the tool's definition is stored,"
        " to show later changes",
    )
    _add_flag(parser, "--start", "print the id of a long call instead of waiting; for `toolwire calls` (URLs only)")
    _add_flag(parser, "--json", "print the result as JSON")
    _add_output(parser, "write the result, such as an image, to this file; - for standard output")
    _add_calling(parser)
    _add_locked(parser)
    _add_remote(parser)
    _add_sign_in(parser)
    _add_context(parser)
    _add_selection(parser)


def _add_calls(parser: Parser) -> None:
    parser.add_argument(
        "action",
        choices=["list", "show", "wait", "cancel"],
        help="list: your calls, newest first; show: the status of a call; wait: wait for its result and print it;"
        " cancel: ask the server to stop it",
    )
    _add_value(parser, "target", "URL", "the server, over any of its protocols")
    _add_optional(parser, "id", "ID", "the id that `call --start` or list printed")
    _add_value(parser, "--limit", "N", "list: how many calls to list (%(default)s)", type=_count, default=20)
    text = f"time limit in seconds; wait: none by default, otherwise {TOTAL_S}"
    _add_option(parser, replace(_TIMEOUT, default=None, help=text))
    _add_flag(parser, "--json", "print JSON")
    _add_output(parser, "wait: write the result to this file; - for standard output")
    _add_remote(parser)
    _add_sign_in(parser)
    parser.of_actions = {"limit": ("list",)}


def _add_resources(parser: Parser) -> None:
    _add_value(parser, "target", "TARGET", _TARGET)
    _add_value(parser, "uri", "URI", "the URI to read; without it, all are listed", nargs="?")
    _add_flag(parser, "--json", "print the list or the content as JSON")
    _add_output(parser, "write the content to this file; - for standard output")
    _add_timeout(parser, TOTAL_S, "time limit for reading, in seconds")
    _add_remote(parser)
    _add_sign_in(parser)


def _add_prompts(parser: Parser) -> None:
    _add_value(parser, "target", "TARGET", _TARGET)
    _add_value(parser, "name", "NAME", "the prompt to fill in; without it, all are listed", nargs="?")
    _add_words(parser, "values", "KEY=VALUE", "an argument of the prompt, as text")
    _add_flag(parser, "--json", "print the list or the messages as JSON")
    _add_timeout(parser, TOTAL_S, "time limit for reading, in seconds")
    _add_remote(parser)
    _add_sign_in(parser)


def _add_chat(parser: Parser) -> None:
    _add_words(parser, "targets", "URL", "a server whose tools the model can use")
    _add_flag(parser, "--browser", "chat in the browser; you can add servers there")
    _add_page_options(parser)
    for option in _MODEL:
        _add_option(parser, option)
    _add_calling(parser)
    _add_options(parser, ServeOptions, "agree", "returns")
    _add_options(parser, RemoteOptions, "include_site_description")
    _add_locked(parser)
    _add_remote(parser)
    _add_sign_in(parser)
    _add_context(parser)
    _add_selection(parser)


def _add_console(parser: Parser) -> None:
    _add_words(parser, "targets", "URL", "servers to list among the connections")
    _add_page_options(parser)
    _add_value(parser, "--path", "FOLDER", "the folder or PostgreSQL that stores decisions; default: this user's")
    _add_value(parser, "--lock", "FILE", "the lock file to compare with (%(default)s)", default="toolwire.lock")
    _add_value(
        parser,
        "--state",
        "WHERE",
        "show a server's long calls, questions and decisions; a folder or postgresql://HOST",
        default="",
    )


def _add_page_options(parser: Parser) -> None:
    parser.add_argument("--port", type=_port, default=0, help="the local port of the pages; 0 picks a free one (0)")
    _add_flag(parser, "--no-open", "print the link instead of opening a browser")


def _add_explain(parser: Parser) -> None:
    _add_value(parser, "target", "URL", "the URL to probe; probes only read")
    _add_flag(parser, "--json", "print the probes as JSON")
    _add_reading_timeout(parser)
    _add_keys(parser)


def _add_check(parser: Parser) -> None:
    _add_words(parser, "files", "FILE", "a document (JSON or YAML), or a Python file with tools", "+")
    parser.add_argument(
        "--kind",
        choices=["opentool", "otc", "openapi", "llm", "overlay"],
        help="the kind of document (default: from its content)",
    )
    _add_list(
        parser,
        "--overlay",
        "FILE",
        "also check this OpenAPI Overlay; it is applied to each OpenAPI document. Repeat for more",
    )
    _add_flag(parser, "--strict", "exit with 1 if there are warnings")
    how = parser.add_mutually_exclusive_group()
    _add_flag(how, "--json", "print the faults as JSON")
    _add_flag(how, "--sarif", "print the faults as SARIF 2.1.0, for code hosts")


def _add_conform(parser: Parser) -> None:
    _add_value(parser, "target", "URL", "the server; tools are called only with --call")
    _add_value(parser, "--call", ("TOOL", "ARGS"), "a tool to call, and its arguments as a JSON object", nargs=2)
    _add_flag(parser, "--json", "print the reports as JSON")
    _add_flag(parser, "--markdown", "print the reports as Markdown")
    _add_timeout(parser, ANSWER_S, "time limit of each response, in seconds")
    _add_keys(parser)
    _add_options(parser, RemoteOptions, "protocol")


def _add_convert(parser: Parser) -> None:
    _add_value(parser, "source", "SOURCE", f"a document, - for standard input, or {_TARGET}")
    _add_value(
        parser,
        "--to",
        "KIND",
        f"the kind of the new document: {', '.join(_CONVERTED)}",
        required=True,
        choices=_CONVERTED,
    )
    _add_value(parser, "--kind", "KIND", "the kind of the source", choices=(*_CONVERTED, "universal"))
    text = "write the document to this file instead of standard output"
    _add_output(parser, text, "overwrite the --output and --losses files")
    _add_flag(parser, "--strict", "write nothing and exit with 1 if anything is lost")
    _add_value(parser, "--losses", "FILE", "write the list of losses to this file, as JSON")
    _add_reading(parser)


def _add_publish(parser: Parser) -> None:
    _add_value(parser, "target", "TARGET", _TARGET)
    _add_flag(parser, "--server-json", "print server.json, for mcp-publisher; nothing is sent")
    _add_value(parser, "--url", "URL", "the URL where MCP clients reach it (the target's URL)", default="")
    _add_value(parser, "--name", "NAME", "its name in the registry; the default is the host's", default="")
    _add_reading_timeout(parser)
    _add_remote(parser)


def _add_size(parser: Parser) -> None:
    _add_value(parser, "target", "TARGET", _TARGET)
    _add_flag(parser, "--json", "print the numbers as JSON")
    _add_reading(parser)


def _add_approvals(parser: Parser) -> None:
    _add_value(
        parser,
        "action",
        "ACTION",
        "list, allow, deny, revoke, set, unset, log, key or verify (list)",
        nargs="?",
        default="list",
        choices=["list", "allow", "deny", "revoke", "set", "unset", "log", "key", "verify"],
    )
    _add_optional(parser, "id", "ID | SITE | FILE", "the question, permission, server or receipts file")
    _add_words(parser, "words", "TOOL LEVEL", "set: a tool, and per-call or deny; unset: a tool")
    which = parser.add_mutually_exclusive_group()
    _add_flag(which, "--writes", "set, unset: all tools that change something")
    _add_flag(which, "--every", "set, unset: all tools of the server")
    _add_flag(parser, "--always", "allow: do not ask again for 30 days; if the server allows that")
    _add_list(
        parser,
        "--bound",
        "TEXT",
        'allow: do not ask again if this condition is met; such as "amount <= 50" or "to in Ada, Bob". Repeat for more',
    )
    _add_value(parser, "--times", "N", "allow: do not ask again for this number of calls")
    _add_flag(parser, "--similar", "allow: also for the other tools that the question lists")
    _add_value(parser, "--until", "TIME", "allow: do not ask again until then; friday, 2026-12-24 or 12h")
    _add_value(parser, "--reason", "TEXT", "deny: a reason for the assistant", default="")
    _add_value(
        parser,
        "--since",
        "TIME",
        "log: only entries since this time; 2026-11-30, 2026-11-30T08:00, or 7d, 12h or 30m ago",
    )
    _add_value(parser, "--site", "TEXT", "log: only servers and connections that contain this text", default="")
    _add_value(parser, "--tool", "TEXT", "log: only tools whose ID contains this text", default="")
    _add_flag(parser, "--json", "list: print JSON; log, verify: print a JSON object on each line")
    _add_flag(parser, "--verify", "log: verify that no record was changed")
    _add_flag(parser, "--rotate", "key: create a new signing key")
    _add_value(parser, "--keys", "FILE", "verify: the public keys; a JWK Set (default: your own)")
    _add_value(
        parser,
        "--path",
        "WHERE",
        "the folder or PostgreSQL that stores decisions; default: TOOLWIRE_STATE, or toolwire in XDG_STATE_HOME",
    )
    of_allow = dict.fromkeys(("always", "bound", "times", "until", "similar"), ("allow",))
    of_log = dict.fromkeys(("since", "site", "tool", "verify"), ("log",))
    others = {"reason": ("deny",), "json": ("list", "log", "verify"), "rotate": ("key",), "keys": ("verify",)}
    parser.of_actions = {**of_allow, **of_log, **others}


def _add_settings(parser: Parser) -> None:
    _add_action(
        parser,
        {
            "show": "print the settings",
            "check": "print the errors in the files",
            "trust": "use all settings of this project",
            "forget": "ignore them again (show)",
        },
        default="show",
    )
    _add_value(
        parser,
        "of",
        "COMMAND",
        "show: each option of this command, with its value and its source",
        nargs="?",
        default="",
        choices=["", *sorted(WITH_SETTINGS)],
    )
    _add_optional(parser, "target", "TARGET", "show: the settings for this target")
    _add_flag(parser, "--json", "show, check: print JSON")
    parser.of_actions = {"json": ("show", "check")}


def _add_lock(parser: Parser) -> None:
    _add_words(parser, "targets", "URL", "a server whose tools are pinned", "+")
    _add_lock_file(parser)
    _add_reading_timeout(parser)
    _add_remote_tools(parser)


def _add_diff(parser: Parser) -> None:
    _add_value(parser, "target", "URL", "the server to compare with the lock file")
    _add_flag(parser, "--json", "print the differences as JSON")
    _add_lock_file(parser)
    _add_reading_timeout(parser)
    _add_remote_tools(parser)


def _add_lock_file(parser: Parser) -> None:
    _add_value(parser, "--file", "FILE", "the lock file (%(default)s)", default="toolwire.lock")


def _add_locked(parser: Parser) -> None:
    _add_option(parser, _LOCKED)
    _add_lock_file(parser)


def _add_login(parser: Parser) -> None:
    _add_value(parser, "url", "URL", "the server")
    _add_flag(parser, "--key", "type a key, token or password instead; it is not shown")
    _add_list(parser, "--scope", "S", "a scope to request; repeat for more")
    _add_flag(parser, "--device", "sign in on another device; for machines without a browser")
    _add_flag(parser, "--as-program", "sign in as the program itself (client credentials)")
    _add_options(parser, RemoteOptions, "account")
    _add_sign_in(parser)
    _add_program_sign_in(parser)
    _add_reading_timeout(parser)
    _add_network(parser)
    _add_selection(parser)


def _add_context(parser: Parser) -> None:
    what = parser.add_argument_group("what tools require", "(a tool gets only what it declares)")
    _add_list(
        what,
        "--token",
        "PROVIDER[=@FILE]",
        "an access token for a provider; from a file, the variable PROVIDER_TOKEN, or typed",
    )
    _add_list(
        what, "--secret", "NAME[=@FILE]", "a secret that the tool needs; from a file, the variable NAME, or typed"
    )
    _add_value(what, "--user-id", "ID", "the ID of the user whom the call is for")


def _add_sign_in(parser: Parser) -> None:
    how = parser.add_argument_group("how to sign in", "(where the site requires it)")
    for option in _SIGN_IN:
        _add_option(parser, option, how)


def _add_program_sign_in(parser: Parser) -> None:
    how = parser.add_argument_group("how a program signs in", "(without a browser)")
    _add_value(how, "--client-key", "FILE", "a private key (PEM or JWK) that proves the client ID")
    _add_value(how, "--assertion-file", "FILE", "a file that holds the workload's signed token (JWT)")
    _add_value(how, "--assertion-env", "NAME", "the environment variable that holds that token")
    _add_value(
        how,
        "--identity-provider",
        "ISSUER",
        "your organization's identity provider; the signed token is then your ID token from it",
    )
    _add_value(how, "--provider-client-id", "ID", "your client ID at the identity provider")
    _add_value(how, "--provider-secret-env", "NAME", "the environment variable that holds its client secret")


def _add_calling(parser: Parser) -> None:
    _add_option(parser, _APPROVAL)
    _add_timeout(parser, TOTAL_S, "time limit of one call, in seconds")


def _add_timeout(parser: Parser, default_s: int, text: str) -> None:
    _add_option(parser, replace(_TIMEOUT, default=default_s, help=f"{text} ({default_s})"))


def _add_reading_timeout(parser: Parser) -> None:
    _add_timeout(parser, READING_S, "time limit for finding and reading the server, in seconds")


def _add_upstream_timeout(parser: Parser) -> None:
    _add_timeout(parser, UPSTREAM_S, "time limit of one call to an upstream, in seconds")


def _add_reading(parser: Parser) -> None:
    """Add what decides how the tools of a target are read."""
    _add_reading_timeout(parser)
    _add_offline(parser)
    _add_remote_tools(parser)


def _add_offline(parser: Parser) -> None:
    _add_flag(parser, "--offline", "use documents stored by an earlier command; send no request (URLs only)")


def _add_remote(parser: Parser) -> None:
    _add_keys(parser)
    _add_options(parser, RemoteOptions, "account", "protocol")


def _add_remote_tools(parser: Parser) -> None:
    _add_remote(parser)
    _add_selection(parser)


def _add_selection(parser: Parser) -> None:
    which = parser.add_argument_group("which tools", "(--match, --safe-only and --no-deprecated for any protocol)")
    names = ("include", "tag", "path", "method", "match", "safe_only", "no_deprecated", "server", "overlay", "follow")
    _add_options(parser, RemoteOptions, *names, "any_version", "document_bytes", into=which)


def _add_keys(parser: Parser) -> None:
    _add_options(parser, RemoteOptions, "key", "key_env", into=parser.add_mutually_exclusive_group())
    _add_options(parser, RemoteOptions, "header", "header_env")
    _add_network(parser)


def _add_network(parser: Parser) -> None:
    network = parser.add_argument_group("networks")
    _add_options(parser, RemoteOptions, "allow_private", "allow_http", "ca_file", into=network)


_seconds = _name_faults(read_seconds)
_count = _name_faults(read_whole_number(1, 10_000, "number of calls"))
_most_found = _name_faults(read_whole_number(1, 50, "number of tools"))
_port = _name_faults(read_port)
_workers = _name_faults(read_processes)
