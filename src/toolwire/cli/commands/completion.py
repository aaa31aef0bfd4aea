"""``toolwire completion``: print a script with which a shell completes commands and options."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from toolwire import __version__
from toolwire.cli.exits import OK
from toolwire.cli.parser import list_commands


def run(arguments: argparse.Namespace) -> int:
    """Print the script for the shell."""
    write = {"bash": write_bash, "zsh": write_zsh, "fish": write_fish}[arguments.shell]
    print(write(list_commands(__version__)))
    return OK


def write_bash(commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return the script for bash: it completes commands, options, choices of options, and files."""
    cases, values = [], []
    for name, command in commands.items():
        words = " ".join(_list_options(command))
        cases.append(f"    {name}) words={shlex.quote(words)} ;;")
        for action in _list_actions(command):
            if action.choices:
                pattern = "|".join(f"{name}:{option}" for option in action.option_strings or ["-"])
                values.append(f"    {pattern}) words={shlex.quote(' '.join(map(str, action.choices)))}; only=1 ;;")
    return "\n".join(
        [
            "_toolwire() {",
            '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
            '  local command="${COMP_WORDS[1]}" words="" only=""',
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f'    COMPREPLY=($(compgen -W {shlex.quote(" ".join([*commands, "--help", "--version"]))} -- "$current"))',
            "    return",
            "  fi",
            '  case "$command" in',
            *cases,
            "  esac",
            '  [ "$COMP_CWORD" -eq 2 ] && previous="-"',
            '  case "$command:$previous" in',
            *values,
            "  esac",
            '  if [ -n "$only" ] || [[ "$current" == -* ]]; then',
            '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "  else",
            '    COMPREPLY=($(compgen -f -- "$current"))',
            "  fi",
            "}",
            "complete -o filenames -F _toolwire toolwire",
        ]
    )


def write_zsh(commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return the script for zsh, with the help text of each command and option."""
    lines = ["#compdef toolwire", "_toolwire() {", "  local -a commands=("]
    lines += [f"    '{_escape(name)}:{_escape(_read_summary(command))}'" for name, command in commands.items()]
    lines += ["  )", "  if (( CURRENT == 2 )); then", "    _describe command commands", "    return", "  fi"]
    lines += ["  local command=$words[2]", "  shift words; (( CURRENT-- ))", '  case "$command" in']
    for name, command in commands.items():
        lines.append(f"    {name}) _arguments \\")
        for action in _list_actions(command):
            choices = f"({' '.join(map(str, action.choices))})" if action.choices else "_files"
            if not action.option_strings:
                lines.append(f"      '*::{_escape(str(action.metavar or action.dest))}:{choices}' \\")
            for option in action.option_strings:
                value = "" if action.nargs == 0 else f":{_escape(str(action.metavar or action.dest))}:{choices}"
                lines.append(f"      '*{option}[{_escape(_read_help(action))}]{value}' \\")
        lines.append("      ;;")
    lines += ["  esac", "}"]
    return "\n".join(
        [*lines, 'if [ "$funcstack[1]" = "_toolwire" ]; then _toolwire; else compdef _toolwire toolwire; fi']
    )


def write_fish(commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return the script for fish, with the help text of each command and option."""
    lines = []
    for name, command in commands.items():
        summary = shlex.quote(_read_summary(command))
        lines.append(f"complete -c toolwire -n __fish_use_subcommand -f -a {name} -d {summary}")
        for action in _list_actions(command):
            choices = f" -f -a {shlex.quote(' '.join(map(str, action.choices)))}" if action.choices else ""
            if not action.option_strings:
                if choices:
                    lines.append(f"complete -c toolwire -n '__fish_seen_subcommand_from {name}'{choices}")
                continue
            forms = " ".join(
                f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}" for one in action.option_strings
            )
            takes = "" if action.nargs == 0 else " -r"
            text = shlex.quote(_read_help(action))
            lines.append(
                f"complete -c toolwire -n '__fish_seen_subcommand_from {name}' {forms}{takes}{choices} -d {text}"
            )
    return "\n".join(lines)


def _list_options(command: argparse.ArgumentParser) -> Iterator[str]:
    for action in _list_actions(command):
        yield from action.option_strings


def _list_actions(command: argparse.ArgumentParser) -> list[argparse.Action]:
    # argparse offers no public list of its options; this one has been there since Python 2.7.
    return list(command._actions)


def _read_help(action: argparse.Action) -> str:
    values: dict[str, Any] = {**vars(action), "prog": "toolwire"}
    return (action.help or "") % values


def _read_summary(command: argparse.ArgumentParser) -> str:
    return (command.description or "").rstrip(".")


def _escape(text: str) -> str:
    """Return ``text`` for a specification of zsh in single quotes."""
    return text.replace("'", "’").replace("\\", "\\\\").replace(":", "\\:").replace("[", "\\[").replace("]", "\\]")
