"""What the parts of a task may be, for the API and for the forms of the page alike."""

from __future__ import annotations

from datetime import date
from typing import Annotated, TypeAlias

from pydantic import StringConstraints

Name: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Description: TypeAlias = Annotated[str, StringConstraints(max_length=2_000)]
Due: TypeAlias = date | None
