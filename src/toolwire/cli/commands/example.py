"""``toolwire example``: write an example, a file or a folder that can be served or run as it is."""

from __future__ import annotations

import argparse
import ast
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from toolwire.cli.exits import OK
from toolwire.cli.output_file import STANDARD_OUTPUT, Output, OutputFile
from toolwire.cli.parser import EXAMPLES
from toolwire.cli.terminal.screen import escaped
from toolwire.core.errors import UsageError

_EXAMPLE_FILES: Final = files("toolwire.example_files")
_FOLDERS: Final = ("recipes",)
_USES: Final = {
    "model": "Run it: python {}",
    "recipes": "Run it: python -m {0}, and its model: python -m {0}.model",
}


def run(arguments: argparse.Namespace) -> int:
    """Write the example to a file or a folder; a file is replaced only with ``--force``. Or list the examples."""
    if arguments.list:
        for name in EXAMPLES:
            text = next(iter(_list_files(name, "").values())).read_text(encoding="utf-8")
            print(f"{name:<8} {(ast.get_docstring(ast.parse(text)) or '').partition(':')[0]}.")
        return OK
    name = arguments.name
    output = str(arguments.output or (name if name in _FOLDERS else f"{name}.py"))
    if name in _FOLDERS and output == STANDARD_OUTPUT:
        raise UsageError(f"The example {name} is a folder. Give -o a folder name.")
    files = _list_files(name, output)
    _check_place(next(iter(files)))
    if name in _FOLDERS:
        _make_folder(Path(output))
    # All of them are checked before the first is written.
    written = [(OutputFile(file, replace=arguments.force, option="-o"), source) for file, source in files.items()]
    for file_output, source in written:
        file_output.write(Output(source.read_bytes(), "text/x-python"))
    if output != STANDARD_OUTPUT:
        print(f"{escaped(output)} is written. {_USES.get(name, 'Serve it: toolwire serve {}').format(escaped(output))}")
    return OK


def _list_files(name: str, output: str) -> dict[str, Traversable]:
    """Return the files of an example, each with the path that it is written to."""
    if name not in _FOLDERS:
        return {output: _EXAMPLE_FILES / f"{name}.py"}
    # FD-08: the product, and the model for a chat with it.
    own = {one.name: one for one in (_EXAMPLE_FILES / name).iterdir() if one.name.endswith(".py")}
    own |= {"model.py": _EXAMPLE_FILES / "model.py"}
    return {str(Path(output, file)): own[file] for file in sorted(own)}


def _check_place(file: str) -> None:
    """Check that no link leads the example out of this folder.

    Raises:
        UsageError: a folder on the way is such a link.
    """
    # AT-54: a link in a cloned folder must not lead to another file of the user, so it is replaced and not followed.
    path = Path(file)
    here, folder = Path.cwd().resolve(), path.parent.resolve()
    if not path.is_absolute() and ".." not in path.parts and not folder.is_relative_to(here):
        raise UsageError(f"{path.parent} is a link to {folder}, which is outside this folder. Name that folder.")


def _make_folder(folder: Path) -> None:
    """Make the folder of an example, if there is none.

    Raises:
        UsageError: it cannot be made.
    """
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.") from error
