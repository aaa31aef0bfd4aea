"""``toolwire example``: write an example, a file of tools that can be served as it is."""

from __future__ import annotations

import argparse
import ast
from importlib.resources import files
from pathlib import Path
from typing import Final

from toolwire.cli.exits import OK
from toolwire.cli.output_file import STANDARD_OUTPUT, Output, OutputFile
from toolwire.cli.parser import EXAMPLES
from toolwire.cli.terminal.screen import escaped
from toolwire.core.errors import UsageError

_FOLDER: Final = files("toolwire.cli.example_files")


def run(arguments: argparse.Namespace) -> int:
    """Write the example to a file, which is replaced only with ``--force``; or list the examples."""
    if arguments.list:
        for name in EXAMPLES:
            title = (ast.get_docstring(ast.parse(read_example(name))) or "").partition(":")[0]
            print(f"{name:<8} {title}.")
        return OK
    file = Path(arguments.output or f"{arguments.name}.py")
    # AT-54: a link in a cloned folder must not lead to another file of the user, so it is replaced and not followed.
    here, folder = Path.cwd().resolve(), file.parent.resolve()
    is_inside = not file.is_absolute() and ".." not in file.parts
    if is_inside and not folder.is_relative_to(here):
        raise UsageError(f"{file.parent} is a link that leads out of this folder, to {folder}: name that folder.")
    text = read_example(arguments.name).encode()
    OutputFile(str(file), replace=arguments.force, option="-o").write(Output(text, "text/x-python"))
    if str(file) == STANDARD_OUTPUT:
        return OK
    use = "Run it: python" if arguments.name == "model" else "Serve it: toolwire serve"
    print(f"{escaped(str(file))} is written. {use} {escaped(str(file))}")
    return OK


def read_example(name: str) -> str:
    """Return the text of an example."""
    return (_FOLDER / f"{name}.py").read_text(encoding="utf-8")
