"""Load the toolkit of a file or a module, or an object that follows the OpenTool SDK interfaces."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Final, TypeGuard

from toolwire.core.errors import ToolwireError, UsageError
from toolwire.core.interpreter import collect_rarely
from toolwire.core.toolbox import Toolbox
from toolwire.define import Toolkit
from toolwire.opentool.serve_object import build_toolbox
from toolwire.server.limits import THREADS
from toolwire.server.run.function_toolbox import FunctionToolbox

from .mcp_object import build_command, is_mcp_server
from .target import FileTarget, ModuleTarget, describe_missing_file

_TOOLWIRE: Final = Path(__file__).parents[1]
_SERVER_NAMES: Final = ("mcp", "server", "app")
"""The names of an MCP server object that the commands of FastMCP and of the SDK take without being told."""
_INTEGRATIONS: Final[Mapping[str, str]] = {
    "fastapi": "fastapi",
    "starlette": "starlette",
    "litestar": "asgi",
    "django": "asgi",
    "quart": "asgi",
    "flask": "wsgi",
    "bottle": "wsgi",
}
"""The module of toolwire.integrations for the applications of a package."""


def find_import_folder(target: FileTarget | ModuleTarget) -> Path:
    """Return the folder that the code of ``target`` is imported from: for a file of a package, above the package."""
    if isinstance(target, ModuleTarget):
        return Path.cwd()
    path = target.path.resolve()
    inside = _find_package(path)
    return path.parent if inside is None else inside[0] / inside[1].partition(".")[0]


def open_code(target: FileTarget | ModuleTarget, document: Path | None = None, *, threads: int = THREADS) -> Toolbox:
    """Return the code that ``target`` names, as a Toolbox with ``threads`` threads for its plain functions.

    ``load_code`` explains ``document`` and the errors.
    """
    found = load_code(target, document, threads=threads)
    return FunctionToolbox(found, threads=threads) if isinstance(found, Toolkit) else found


def load_code(
    target: FileTarget | ModuleTarget, document: Path | None = None, *, threads: int = THREADS
) -> Toolkit | Toolbox:
    """Return the toolkit or toolbox that ``target`` names. The user's code runs, as in an import.

    A class with ``call`` or ``load``, as in the OpenTool SDKs, is instantiated and becomes a toolbox, with ``threads``
    threads for its plain functions. With an OpenTool ``document``, any class can be used.

    Raises:
        DefinitionError: a class cannot be served, or does not fit its document; the text names every difference.
        UsageError: there is no such thing, or the code cannot be imported; the sentence says where and why.
    """
    found, where, name = load_object(target)
    if is_mcp_server(found):
        text = f"{name!r} in {where} is an MCP server of another framework"
        raise UsageError(f"{text}. Serve it with `toolwire serve {where}:{name}`, and use the URL that is printed.")
    if _is_toolbox(found):
        if document is not None:
            raise UsageError(f"--document is for a class. {where} contains no such class, and describes itself.")
        return found
    if _find_integration(found):
        raise UsageError(_explain_application(found, name, where))
    if document is None and not _is_tool(found):
        raise UsageError(f"{name!r} in {where} is not a Toolkit, but of type {type(found).__name__}.")
    return _wrap_object(found, document, f"{name!r} in {where}", threads)


def load_object(target: FileTarget | ModuleTarget) -> tuple[object, str, str]:
    """Return what ``target`` names, and where it is, and its name there. The user's code runs, as in an import.

    Raises:
        UsageError: there is no such thing, or the code cannot be imported; the sentence says where and why.
    """
    match target:
        case FileTarget(path, name):
            where = str(path)
            module = _load_file(path)
        case ModuleTarget(where, name):
            module = _load_module(where)
    return _find_object(module, name, where)


def find_mcp_command(target: FileTarget | ModuleTarget) -> str | None:
    """Return the target ``stdio:COMMAND`` that serves the MCP server object ``target`` names, or None if it names none.

    Raises:
        UsageError: there is no such thing, or the code cannot be imported.
    """
    found, where, name = load_object(target)
    place = str(Path(where).resolve()) if isinstance(target, FileTarget) else where
    return build_command(f"{place}:{name}") if is_mcp_server(found) else None


def _find_object(module: ModuleType, name: str | None, where: str) -> tuple[object, str, str]:
    if name is not None:
        return _find_name(module, name, where), where, name
    toolkits = _list_toolkits(module)
    if not toolkits and (servers := _list_names(module, is_mcp_server)):
        usual = [one for one in _SERVER_NAMES if one in servers]  # a file with parts has the whole under such a name
        found = _choose_name(usual[:1] or servers, where, "MCP servers")
        return getattr(module, found), where, found
    if not toolkits and (applications := _list_names(module, lambda value: _find_integration(value) != "")):
        raise UsageError(_explain_application(getattr(module, applications[0]), applications[0], where))
    if not toolkits:
        raise UsageError(
            f"{where} contains no Toolkit. Write `tools = Toolkit('Tools')`, and @tools.tool above a function."
        )
    return getattr(module, _choose_name(toolkits, where, "toolkits")), where, ""


def _choose_name(names: Sequence[str], where: str, things: str) -> str:
    if len(names) == 1:
        return names[0]
    raise UsageError(f"{where} contains several {things}. Write {' or '.join(f'{where}:{name}' for name in names)}.")


def _find_integration(found: object) -> str:
    """Return the module of toolwire.integrations for a web application, or ``""``. No framework is imported."""
    homes = [base.__module__.partition(".")[0] for base in type(found).__mro__]
    return next((_INTEGRATIONS[home] for home in homes if home in _INTEGRATIONS and callable(found)), "")


def _explain_application(found: object, name: str, where: str) -> str:
    integration = _find_integration(found)
    arguments = name if integration == "fastapi" else f"{name}, document"
    return (
        f"{name!r} in {where} is a {type(found).__name__} application. Publish its tools with "
        f"`publish_tools({arguments})` from toolwire.integrations.{integration}, serve it, and use its URL."
    )


def _is_toolbox(found: object) -> TypeGuard[Toolkit | Toolbox]:
    return isinstance(found, Toolkit) or (isinstance(found, Toolbox) and not isinstance(found, type))


def _is_tool(found: object) -> bool:
    """Return whether ``found`` is an OpenTool tool object, or a class of such objects."""
    if isinstance(found, Toolbox):  # a Toolbox class has methods of the same names
        return False
    return callable(getattr(found, "call", None)) or callable(getattr(found, "load", None))


def _wrap_object(found: object, document: Path | None, where: str, threads: int) -> Toolbox:
    try:
        return build_toolbox(found, document, threads=threads)
    except ToolwireError:
        raise
    except Exception as error:
        raise UsageError(f"{where} cannot be made: {_describe_error(error)}.") from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(describe_missing_file(str(path)))
    path = path.resolve()
    # The module is known under its full path: the name is unique, and pydantic finds the names of the file again.
    if (known := sys.modules.get(str(path))) is not None:
        return known
    if (inside := _find_package(path)) is not None:
        return _load_package_module(path, *inside)
    _add_import_path(path.parent)
    with _explain_failures(path.parent, path.name), collect_rarely():
        return _execute(path)


def _find_package(path: Path) -> tuple[Path, str] | None:
    """Return the folder above the package of a file, and the name of its module; None if it is in no package."""
    names, folder = [path.stem] if path.stem != "__init__" else [], path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.append(folder.name)
        folder = folder.parent
    is_inside = folder != path.parent and path.stem.isidentifier()
    return (folder, ".".join(reversed(names))) if is_inside else None


def _load_package_module(path: Path, folder: Path, name: str) -> ModuleType:
    """Import a file of a package under its name in the package, so that its relative imports work."""
    _add_import_path(folder)
    with _explain_failures(folder, path.name), collect_rarely():
        module = import_module(name)
        found = getattr(module, "__file__", None)
        if found is None or Path(found).resolve() != path:
            raise UsageError(f"{path} is the module {name!r}, but that name resolves to {found}. Rename the package.")
        return module


def _execute(path: Path) -> ModuleType:
    spec = spec_from_file_location(str(path), path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not Python")
    module = module_from_spec(spec)
    sys.modules[str(path)] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[str(path)]
        raise
    return module


def _load_module(name: str) -> ModuleType:
    _add_import_path(Path.cwd())
    with _explain_failures(Path.cwd(), name), collect_rarely():
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise UsageError(f"There is no module {error.name!r} in this folder or on Python's path.") from error


def _add_import_path(folder: Path) -> None:
    """Let the user's code import its neighbours, as when Python runs the file."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@contextmanager
def _explain_failures(folder: Path, name: str) -> Generator[None, None, None]:
    """Turn any exception of the user's code below ``folder`` into one sentence."""
    try:
        yield
    except UsageError:
        raise
    except SystemExit as error:
        place = _locate_error(error, folder, name)
        raise UsageError(f"{place}: this ends the program. Move it below `if __name__ == '__main__':`.") from error
    except Exception as error:
        raise UsageError(f"{_locate_error(error, folder, name)}: {_describe_error(error)}.") from error


def _locate_error(error: BaseException, folder: Path, name: str) -> str:
    """Return file and line of the user's own code that led to ``error``: the innermost that is below ``folder``."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shorten_path(error.filename)}, line {error.lineno}"
    own = [frame for frame in extract_tb(error.__traceback__) if _is_own(Path(frame.filename), folder)]
    return f"{_shorten_path(own[-1].filename)}, line {own[-1].lineno}" if own else name


def _is_own(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder) and not path.is_relative_to(_TOOLWIRE) and "site-packages" not in path.parts


def _shorten_path(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _describe_error(error: Exception) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(text.split())}".rstrip(".: ")


def _find_name(module: ModuleType, name: str, where: str) -> object:
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"There is no {name!r} in {where}. {_describe_toolkits(_list_toolkits(module))}.")
        found = getattr(found, part)
    return found


def _list_toolkits(module: ModuleType) -> Sequence[str]:
    return _list_names(module, lambda value: isinstance(value, Toolkit))


def _list_names(module: ModuleType, matches: Callable[[object], bool]) -> Sequence[str]:
    """Return the name of each object in ``module`` that ``matches``, the first where one has several."""
    names: dict[int, str] = {}
    for name, value in vars(module).items():
        if matches(value):
            names.setdefault(id(value), name)
    return tuple(names.values())


def _describe_toolkits(names: Sequence[str]) -> str:
    return f"It has {', '.join(names)}" if names else "It has no toolkit"
