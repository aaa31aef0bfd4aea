"""Read and write the entry of a skill: its frontmatter, and the digest of each file (SEP-2640)."""
# QF-09

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from toolwire.core.model import Json
from toolwire.core.server_features import (
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    SKILL_FILE,
    SkillDefinition,
    add_uri_prefix,
    is_skill_file,
)
from toolwire.framing.jsontext import get_object
from toolwire.framing.text_cleaning import clean
from toolwire.validation.json_size import is_within_size

from . import foreign_members

_MAX_URI: Final = 2_000
_DIGEST: Final = re.compile("sha256:[0-9a-f]{64}")


def read(entry: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return the ``entry`` of another server's skill, or None if a host must not load the skill."""
    uri, frontmatter, listed = entry.get("uri"), get_object(entry, "frontmatter"), entry.get("resources")
    name = frontmatter.get("name")
    if (
        not isinstance(uri, str)
        or len(uri) > _MAX_URI
        or clean(uri).text != uri
        or not isinstance(name, str)
        or not isinstance(frontmatter.get("description"), str)
        or not uri.endswith(f"/{name}/{SKILL_FILE}")
        or not is_skill_file(uri, uri)
        or not is_within_size(frontmatter, foreign_members.MAX_DEFINITION_PARTS)
    ):
        return None
    files = _read_files(listed, uri) if isinstance(listed, list) else "dynamic" if listed == "dynamic" else None
    if files is None:
        return None
    return {
        **foreign_members.read_skill_members(entry),
        "uri": uri,
        "frontmatter": dict(frontmatter),
        "resources": files,
    }


def write(skill: SkillDefinition, entry: Mapping[str, Json]) -> dict[str, Json]:
    """Return ``entry``, which is one of ``skill``, with the URIs by which callers read the files."""
    prefix, listed = skill.resource.prefix, entry["resources"]
    if not prefix:
        return dict(entry)
    files: Json = (
        [{**one, "uri": add_uri_prefix(one["uri"], prefix)} for one in listed if isinstance(one, dict)]
        if isinstance(listed, list)
        else listed
    )
    return {**entry, "uri": skill.uri, "resources": files}


def _read_files(listed: Sequence[Json], uri: str) -> list[Json] | None:
    files: dict[str, Json] = {}
    total = 0
    for one in listed[: MAX_SKILL_FILES + 1]:
        match one:
            case {"uri": str(file), "digest": str(digest), "size": int(size)} if (
                len(file) <= _MAX_URI
                and is_skill_file(file, uri)
                and _DIGEST.fullmatch(digest)
                and not isinstance(size, bool)
                and size >= 0
            ):
                files[file] = {"uri": file, "digest": digest, "size": size}
                total += size
            case _:
                return None
    is_complete = uri in files and len(files) == len(listed) <= MAX_SKILL_FILES and total <= MAX_SKILL_BYTES
    return [*files.values()] if is_complete else None
