"""How a call came, beside what it says: the message it was in, and who sent that."""

from __future__ import annotations

from typing import NamedTuple

from toolwire.core.http import Request


class Arrival(NamedTuple):
    """The request as its protocol has it, the address of who sent it, and their version of HTTP; "" if unknown."""

    request: Request
    client: str = ""
    http_version: str = ""
