"""Define the skills in a folder (MCP Skills, SEP-2640; the format is that of agentskills.io).

Rules:
- Files are read once, when the folder is added. So what is served is what its digest says, whatever happens to the
  folder afterwards.
- Only plain files are read. A link is refused, as it could lead anywhere. Hidden files and ``__pycache__`` are left
  out.
"""
# QF-09

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

from toolwire.core.content import UNTYPED, File
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Json
from toolwire.core.server_features import (
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    SKILL_FILE,
    ResourceDefinition,
    SkillDefinition,
    name_reader_toolkit,
)
from toolwire.define import Function
from toolwire.define.definition import define_function
from toolwire.framing.skill_file import parse_frontmatter, write_digest

_MAX_ENTRIES: Final = 10_000
_MAX_DESCRIPTION: Final = 1_024
_NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")


def define_skills(
    folder: str | os.PathLike[str], scopes: Sequence[str], *, toolkit: str, version: str
) -> list[tuple[SkillDefinition, Function]]:
    """Return each skill in ``folder`` with the function that reads its files, in the order of their paths.

    Raises:
        DefinitionError: there is none, one is not valid, or a file cannot be served; the sentence says which and why.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DefinitionError(
            f"There is no folder {str(folder)!r}. Beside your file, it is Path(__file__).with_name('skills')."
        )
    try:
        files = _list_files(root)
        # A folder that is itself a skill is served under its own name.
        base = f"{root.resolve().name}/" if SKILL_FILE in files else ""
        homes = [path.removesuffix(SKILL_FILE) for path in files if f"/{path}".endswith(f"/{SKILL_FILE}")]
        read = {path: _read(files[path]) for path in _select(files, homes)}
    except OSError as error:
        raise DefinitionError(f"{error.filename} cannot be read: {error.strerror}.") from None
    if not homes:
        raise DefinitionError(f"{root} contains no skill. A skill is a folder with a file {SKILL_FILE}.")
    return [
        _define_skill(
            root / home,
            {f"{base}{path}": data for path, data in read.items() if path.startswith(home)},
            f"{base}{home}{SKILL_FILE}",
            {"scopes": scopes, "toolkit": toolkit, "version": version},
        )
        for home in homes
    ]


def _list_files(root: Path) -> dict[str, Path]:
    """Return the files of ``root`` by their paths in it."""
    found: dict[str, Path] = {}
    count = 0
    for where, folders, names in os.walk(root, onerror=_fail):
        folders[:] = sorted(name for name in folders if not _is_left_out(name))
        for name in [*folders, *sorted(name for name in names if not _is_left_out(name))]:
            path = Path(where, name)
            mode = path.lstat().st_mode
            count += 1
            if count > _MAX_ENTRIES:
                raise DefinitionError(f"{root} contains more than {_MAX_ENTRIES:,} files. Name the skill folder.")
            if stat.S_ISREG(mode):
                found[path.relative_to(root).as_posix()] = path
            elif not stat.S_ISDIR(mode):
                raise DefinitionError(f"{path} is a link or a device. Replace it with a file or a folder.")
    return found


def _fail(error: OSError) -> NoReturn:
    raise error


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"


def _select(files: dict[str, Path], homes: Sequence[str]) -> Iterator[str]:
    """Yield the files of skills, after a look at what each skill would load."""
    for home in homes:
        own = [path for path in files if path.startswith(home)]
        total = sum(files[path].lstat().st_size for path in own)
        if len(own) > MAX_SKILL_FILES or total > MAX_SKILL_BYTES:
            raise DefinitionError(
                f"The skill {home or '.'} has {len(own)} files with {total:,} bytes, but hosts load at most "
                f"{MAX_SKILL_FILES} files and {MAX_SKILL_BYTES // 1024**2} MiB. Make it smaller."
            )
    yield from (path for path in files if any(path.startswith(home) for home in homes))


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_SKILL_BYTES + 1)


def _define_skill(
    folder: Path, files: dict[str, bytes], main: str, options: dict[str, Any]
) -> tuple[SkillDefinition, Function]:
    where = folder / SKILL_FILE
    frontmatter = parse_frontmatter(files[main])
    if isinstance(frontmatter, str):
        raise DefinitionError(f"{where}: {frontmatter}.")
    name, description = str(frontmatter["name"]), str(frontmatter["description"])
    if _NAME.fullmatch(name) is None or name != folder.resolve().name:
        raise DefinitionError(
            f"{where}: the name must be the folder's name, not {name[:100]!r}: lowercase letters, digits and single "
            "hyphens, at most 64 characters."
        )
    if not description.strip() or len(description) > _MAX_DESCRIPTION:
        raise DefinitionError(f"{where}: the description must have 1 to {_MAX_DESCRIPTION:,} characters.")
    try:
        uris = {path: f"skill://{quote(path)}" for path in files}
    except UnicodeEncodeError:
        raise DefinitionError(f"{folder} contains a file whose name is not UTF-8. Rename it.") from None
    contents = {uri: _build_content(path, files[path]) for path, uri in uris.items()}

    if not isinstance(contents[uris[main]], str):
        raise DefinitionError(f"{where} is not UTF-8 text.")

    def read(uri: str) -> Any:
        return contents[uri]

    toolkit = name_reader_toolkit(options["toolkit"], "skill")
    reader = define_function(
        read,
        {
            "name": name,
            "description": description,
            "scopes": options["scopes"],
            "safe": True,
            "approval": "auto",
            "inline": True,
        },
        toolkit=toolkit,
        version=options["version"],
        names={},
    )
    listed: list[Json] = [
        {"uri": uri, "digest": write_digest(files[path]), "size": len(files[path])} for path, uri in uris.items()
    ]
    resource = ResourceDefinition(
        uri=uris[main], reader=reader.tool, media_type="text/markdown", size=len(files[main]), takes_uri=True
    )
    entry: dict[str, Json] = {"uri": uris[main], "frontmatter": frontmatter, "resources": listed}
    return SkillDefinition(resource=resource, entry=entry), reader


def _build_content(path: str, data: bytes) -> str | File:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return File(data, guess_type(path)[0] or UNTYPED)
