"""Write the help of the program and its commands: what most users need, on one screen; ``--help-all`` has the rest."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Final

# FD-03: at most 40 lines of 80 columns for each command.
START: Final = """\
Start with one of these:
  toolwire example                    write shop.py, an example of tools
  toolwire serve shop.py              serve its tools over every protocol
  toolwire tools URL                  list the tools of a server, an API or a document
  toolwire call URL TOOL KEY=VALUE    call one of them, with your consent
  toolwire install HOST TARGET        let Claude, Cursor or VS Code use them
`toolwire --help` lists all commands.
"""
"""What the program prints if it is started without a command."""

OTHER_WORDS: Final[Mapping[str, str]] = {
    "list": "`toolwire tools TARGET` lists the tools of a target.",
    "ls": "`toolwire tools TARGET` lists the tools of a target.",
    "run": "`toolwire serve FILE` serves tools, and `toolwire call TARGET TOOL` runs one.",
    "start": "`toolwire serve FILE` serves tools.",
    "dev": "`toolwire serve FILE --reload` serves tools and restarts when the file changes.",
    "inspect": "`toolwire show TARGET TOOL` shows one tool, and `toolwire explain URL` how a URL was understood.",
    "search": "`toolwire tools TARGET --find WORDS` searches the tools of a target.",
    "init": "`toolwire example` writes an example of tools.",
    "new": "`toolwire example` writes an example of tools.",
    "add": "`toolwire install HOST TARGET` adds tools to an MCP host, and `toolwire gateway add URL` to a gateway.",
    "auth": "`toolwire login URL` signs you in to a server.",
    "permissions": "`toolwire approvals` lists your permissions, and `toolwire console` shows them on a page.",
    "version": "`toolwire --version` prints the version.",
}
"""What to type instead of the words that users of other tools try first."""

_COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "Offer tools": ("example", "serve", "gateway", "users", "install", "state"),
    "Use tools": ("tools", "find", "show", "call", "calls", "resources", "prompts", "chat"),
    "Sign in and decide": ("login", "logout", "connections", "approvals", "console", "lock", "diff"),
    "Work with documents": ("explain", "convert", "check", "conform", "size", "settings"),
}
"""The commands of ``toolwire --help``, under their headings; ``toolwire --help-all`` lists all."""

_OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "who can call": ("api-key-file", "jwks", "jwt-issuer", "jwt-audience", "private"),
    "network": ("host", "port", "workers", "root-path", "trusted-proxies", "tls-cert"),
    "storage": ("state", "log"),
    "consent": ("consent", "agree", "ask", "approval", "locked"),
    "remote servers": ("key-env", "header-env", "timeout"),
    "which tools": ("include", "tag", "match", "safe-only"),
}
"""The options of commands that their help shows, by name, under their headings."""
_COLUMNS: Final = 80
_NAME_COLUMNS: Final = 26


def format_commands(parser: argparse.ArgumentParser, places: argparse.Action) -> str:
    """Return the help of the program: ``places`` is the argument with the commands, with a summary of each."""
    summaries = {one.dest: one.help or "" for one in getattr(places, "_choices_actions", ())}
    lines = [f"usage: {parser.prog} COMMAND ...", "", parser.description or "", ""]
    for heading, names in _COMMANDS.items():
        lines += [f"{heading}:", *(f"  {name:12} {summaries[name]}" for name in names if name in summaries)]
    return "\n".join([*lines, "", parser.epilog or "", ""])


def format_command(parser: argparse.ArgumentParser, declared: Iterable[str]) -> str:
    """Return the help of one command. Of the options that are ``declared``, only those of ``_OPTIONS`` are shown.

    Of the text of an option, only what comes before the first semicolon is shown.
    """
    grouped = {name for names in _OPTIONS.values() for name in names}
    options = {one.option_strings[-1].lstrip("-"): one for one in parser._actions if one.option_strings}
    hidden = {"help", "help-all", "debug", *declared} - grouped
    groups = {
        "options": [name for name in options if name not in hidden | grouped],
        **{heading: [name for name in names if name in options] for heading, names in _OPTIONS.items()},
    }
    lines = [format_usage(parser), "", parser.description or ""]
    arguments = [one for one in parser._actions if not one.option_strings]
    lines += ["arguments:"] if arguments else []
    lines += [line for one in arguments for line in _lay_out(one, _expand(parser, one))]
    for heading, names in groups.items():
        lines += [f"{heading}:"] if names else []
        for name in names:
            lines += _lay_out(options[name], _expand(parser, options[name]).partition("; ")[0])
    lines += ["", f"`{parser.prog} --help-all` shows all {len(options)} options in detail."]
    return "\n".join([*lines, ""])


def _expand(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": parser.prog}


def _lay_out(action: argparse.Action, text: str) -> Sequence[str]:
    """Return the lines with the name of ``action`` and the ``text`` beside it."""
    name = f"  {argparse.HelpFormatter('')._format_action_invocation(action)}"
    wrapped = wrap(text, _COLUMNS - _NAME_COLUMNS)
    if len(name) + 2 > _NAME_COLUMNS:
        beside = f"{name}  {text}"
        if len(beside) <= _COLUMNS:
            return [beside]
        wrapped.insert(0, "")
    return [f"{name if not index else '':{_NAME_COLUMNS}}{line}".rstrip() for index, line in enumerate(wrapped)]


def format_usage(parser: argparse.ArgumentParser) -> str:
    """Return one line with the arguments of a command, and those options that it requires."""
    formatter = argparse.HelpFormatter(f"{parser.prog} [options]", width=1000)
    needed = [action for action in parser._actions if action.required or not action.option_strings]
    formatter.add_usage(None, needed, [])
    return formatter.format_help().strip()
