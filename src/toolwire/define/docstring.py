"""Read the description, parameters and result from a docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolwire.core.lazy_import import import_lazily

if TYPE_CHECKING:
    from docstring_parser import Docstring as DocstringParts

# Most docstrings do not need the parser.
(_parse_docstring,) = import_lazily("docstring_parser", "parse")

_MARKED = re.compile(r"^(?:[:@]|\.\.|--|\w+:\s*$)", re.MULTILINE)
"""A line that may begin a section, in any of the styles. Other texts can have such a line too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """The texts of a docstring: ``description`` keeps its paragraphs, the others are one line each."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""


def read_docstring(text: str) -> Docstring:
    """Return the parts of a docstring in Google, NumPy or reST style; in any other style it is all description."""
    text = inspect.cleandoc(text)
    again = inspect.cleandoc(text)  # as the parser does; a first line that was blank lets it take off more
    if _MARKED.search(again) is None:
        return Docstring(description=_even_first_gap(again))
    try:
        parsed: DocstringParts = _parse_docstring(text)
    except Exception:  # noqa: BLE001 - the parser trips over some texts, and no text is a reason to refuse a tool
        return Docstring(description=text)
    parameters = {
        name.strip().lstrip("*"): _join_lines(entry.description)
        for entry in parsed.params
        for name in entry.arg_name.split(",")
    }
    returns = _join_lines(parsed.returns.description) if parsed.returns else ""
    return Docstring(description=(parsed.description or "").strip(), parameters=parameters, returns=returns)


def _even_first_gap(text: str) -> str:
    """Return what the parser returns for a text without sections: one empty line at most below the first line."""
    first, _, rest = text.partition("\n")
    gap = "\n\n" if rest.startswith("\n") else "\n"
    return f"{first}{gap}{rest.strip()}".strip()


def _join_lines(text: str | None) -> str:
    return " ".join((text or "").split())
