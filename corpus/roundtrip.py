"""Arguments out and back: each operation of a document called through our client, heard by another reader of OpenAPI.

Yields one count for each call: ``equal``, or why not.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toolwire.client.transport.drivers import run
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.model import Call
from toolwire.core.selection import Selection
from toolwire.protocols.openapi import CODEC
from toolwire.protocols.openapi.request.plan import Plan
from toolwire.protocols.openapi.tools.operations import OperationState

from . import values
from .documents import name
from .echo import DOCUMENT, Heard, prepared, serving
from .judge import operations_data

MAX_BYTES = 600_000
"""Documents of more bytes are not among the hundred: the other reader takes minutes for them."""

UNMADE = "no arguments were found for its schema"
REFUSED = "refused by the other reader"

MAX_CALLED = 40
"""At most so many operations of one document are called, for the same reason."""


_UNREAD = re.compile(rb'"/[^"]*[#?][^"]*": *\{|"swagger":')
"""What the other reader has no word for: a fragment or a query in the key of a path."""


def chosen(paths: Sequence[Path], count: int = 100) -> list[Path]:
    """Return at most ``count`` of ``paths``, evenly out of all that another reader can be given."""
    every = [path for path in sorted(paths) if path.suffix == ".json" and 3_000 < path.stat().st_size <= MAX_BYTES]
    every = [path for path in every if not _UNREAD.search(path.read_bytes())]
    count = min(count, len(every))
    return [every[len(every) * number // count] for number in range(count)]


def returned(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what came of calling every operation of the document at ``path``."""
    document = operations_data(path.read_bytes())
    yield {"document": name(path)}
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    examples: list[str] = []
    with serving(prepared(document)) as echo:
        network = SyncNetwork(allow_private=(echo.url,))
        peer = run(CODEC.find(echo.url + DOCUMENT, Selection(include="all")), network).peer
        assert peer is not None
        assert isinstance(peer.memo, OperationState)
        for tool in peer.catalog.tools[:MAX_CALLED]:
            for full in (False, True):
                made = values.arguments(dict(tool.input_schema), full=full)
                if made is None:
                    counts[UNMADE] += 1
                    continue
                echo.heard = None
                result = run(CODEC.send(peer, Call(tool, made)), network)
                why = (
                    _differs(peer.memo.plans[tool.id], made, echo.heard) if echo.heard else f"not sent: {result}"[:200]
                )
                counts[why.partition(":")[0] or "equal"] += 1
                if why.startswith(REFUSED):
                    reasons[_word(why)] += 1
                if why and len(examples) < 3:
                    examples.append(f"{tool.name}: {why}"[:600])
        network.close()
    yield {"counts": dict(counts), "reasons": dict(reasons), "examples": examples, "faults": []}


def _differs(plan: Plan, made: dict[str, Any], heard: Heard) -> str:
    """Return how what was heard is not what was said, or nothing."""
    if heard.errors:
        return f"{REFUSED}: {'; '.join(heard.errors)}"
    for argument, parameter in plan.parameters:
        if argument not in made or made[argument] in (None, [], {}):
            continue
        got = heard.parameters.get(parameter.place.value, {}).get(parameter.name)
        if not _same(got, made[argument]):
            return f"{parameter.place.value} {parameter.style}: {parameter.name} {made[argument]!r} is heard as {got!r}"
    if plan.media_type is None:
        return ""
    said = {wire: made[one] for one, wire in plan.properties if one in made}
    body = made.get(plan.whole_body) if plan.whole_body is not None else said
    if body is None or (plan.whole_body is None and not said):
        return ""
    return (
        ""
        if _same(heard.body, body)
        else f"body {plan.media_type}: {json.dumps(body)[:300]} is heard as {heard.body!r}"
    )


def _same(heard: Any, said: Any) -> bool:
    """Return whether both are one value; what was left out may be heard as its default."""
    if isinstance(said, dict):
        return isinstance(heard, dict) and all(key in heard and _same(heard[key], one) for key, one in said.items())
    if isinstance(said, list):
        return isinstance(heard, list | tuple) and len(heard) == len(said) and all(map(_same, heard, said))
    if isinstance(said, str) and isinstance(heard, bytes):
        return heard == said.encode() or base64.b64encode(heard) == said.encode()  # a file, which we say as base64
    return bool(heard == said) and isinstance(heard, bool) is isinstance(said, bool)


def _word(why: str) -> str:
    """Return the innermost error that the other reader named."""
    named = re.findall(r"\b([A-Z]\w+): ", why)
    return named[-1] if named else "another"
