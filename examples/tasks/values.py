"""What the parts of a task may be, for the API and for the forms of the page alike."""

from __future__ import annotations

from datetime import date
from typing import Annotated, TypeAlias

from pydantic import StringConstraints

_TEXT = r"^[^\x00]*$"  # no database keeps a null character
Name: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=_TEXT)]
Description: TypeAlias = Annotated[str, StringConstraints(max_length=2_000, pattern=_TEXT)]
Due: TypeAlias = date | None
