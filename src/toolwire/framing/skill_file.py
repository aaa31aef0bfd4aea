"""Read the frontmatter of a skill's SKILL.md, and check the files of a skill against its entry (SEP-2640)."""
# QF-09

from __future__ import annotations

import re
from base64 import b64decode
from hashlib import sha256
from typing import Final

from toolwire.core.content import get_base64, is_content
from toolwire.core.model import Json, Problem
from toolwire.core.server_features import SkillDefinition

from . import yamltext

MAX_FRONTMATTER: Final = 64 * 1024
_FRONTMATTER: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


def write_digest(data: bytes) -> str:
    """Return the digest of a file, as an entry has it."""
    return f"sha256:{sha256(data).hexdigest()}"


def parse_frontmatter(data: bytes) -> dict[str, Json] | str:
    """Return the frontmatter of a SKILL.md, or what is wrong with it."""
    found = _FRONTMATTER.match(data)
    if found is None:
        return "it does not begin with frontmatter: a line ---, then name: and description:, then a line ---"
    if len(found[1]) > MAX_FRONTMATTER:
        return f"its frontmatter is longer than {MAX_FRONTMATTER // 1024} KiB"
    frontmatter = yamltext.read(found[1])
    if isinstance(frontmatter, Problem):
        return f"its frontmatter cannot be read: {frontmatter.message}"
    if not isinstance(frontmatter, dict):
        return "its frontmatter is not a mapping"
    missing = next((name for name in ("name", "description") if not isinstance(frontmatter.get(name), str)), None)
    return frontmatter if missing is None else f"its frontmatter needs {missing}: and a text"


def find_difference(skill: SkillDefinition, uri: str, value: Json) -> str:
    """Return why ``value``, read at ``uri``, is not the file that the entry of ``skill`` describes, or ``""``."""
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
    elif is_content(value):
        data = b64decode(get_base64(value))
    else:
        return "it is not one file"
    files = skill.files
    if files is not None:
        file = next((one for one in files if one.uri == uri), None)
        if file is None:
            return "it is not among the files of the skill"
        if len(data) != file.size or write_digest(data) != file.digest:
            return "its size or digest is not that of the skill's entry"
    if uri != skill.uri:
        return ""
    frontmatter = parse_frontmatter(data)
    if isinstance(frontmatter, str):
        return frontmatter
    return "" if frontmatter == skill.frontmatter else "its frontmatter is not that of the skill's entry"
