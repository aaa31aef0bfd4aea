"""``toolwire example``: write an example, a file of tools that can be served as it is."""

from __future__ import annotations

import argparse
import ast
from importlib.resources import files
from pathlib import Path
from typing import Final

from toolwire.cli.exits import OK, UsageError
from toolwire.cli.parser import EXAMPLES
from toolwire.cli.terminal.screen import escaped

_FOLDER: Final = files("toolwire.cli.example_files")


def run(arguments: argparse.Namespace) -> int:
    """Write the example to a file, which is replaced only with ``--force``; or list the examples."""
    if arguments.list:
        for name in EXAMPLES:
            title = (ast.get_docstring(ast.parse(read_example(name))) or "").partition(":")[0]
            print(f"{name:<8} {title}.")
        return OK
    file = Path(arguments.output or f"{arguments.name}.py")
    try:
        # "x" leaves a file alone that another program makes at the same moment.
        with file.open("w" if arguments.force else "x", encoding="utf-8") as opened:
            opened.write(read_example(arguments.name))
    except FileExistsError as error:
        raise UsageError(f"{file} exists already: name another file with -o, or replace it with --force.") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from error
    print(f"{escaped(str(file))} is written. Serve it: toolwire serve {escaped(str(file))}")
    return OK


def read_example(name: str) -> str:
    """Return the text of an example."""
    return (_FOLDER / f"{name}.py").read_text(encoding="utf-8")
