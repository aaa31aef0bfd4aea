"""What a person is shown before a call: one value, the same in a terminal, in a browser and in the list of questions.

Rules:
- Nothing is cut. What is long is marked long, with its size, so that a page can fold it; what is hidden is said.
- Every text is fit to show as it stands: escaped here, once. [XL-049, D-03, D-21]
- Only what the person's own side marks as a secret is masked, and its length said. A site's mark hides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from toolwire.core.check import Question
from toolwire.core.model import Json, Schema
from toolwire.framing.visible_text import hidden, visible, visible_json

from .origin_display import origin, warning
from .tool_facts import scopes_of

_LONG = 2_000


class DisplayRow(NamedTuple):
    """One thing that is shown: what it is, its text, and a note on it. ``kind`` is part, argument or warning."""

    kind: str
    label: str
    text: str
    note: str = ""

    @property
    def long(self) -> bool:
        """Whether a page may fold it, with its size in sight."""
        return len(self.text) > _LONG


def shown(question: Question) -> tuple[DisplayRow, ...]:
    """Return everything a person must see about ``question``, in order. [XL-049]"""
    return (*_where(question), *_arguments(question), *_terms(question))


def needs_typing(question: Question) -> bool:
    """Return whether one key is not enough of a yes, because the tool destroys something. [D-19]"""
    return question.call.tool.destructive


def confirmation(question: Question) -> str:
    """Return what a person types to allow a tool that destroys something: its name and ``yes``.

    No name makes this an answer that people give out of habit, such as ``n``, ``y``, ``yes`` or nothing.
    """
    return f"{visible(question.call.tool.name)} yes"


def secrets_of(question: Question) -> frozenset[str]:
    """Return the names of the arguments that are masked, and not to be changed on a page.

    The person's side marks them, by name or by giving the value as a ``Secret``. Only a text is ever masked.
    """
    context, arguments = question.call.context, question.call.arguments
    known = {one.reveal() for one in (*context.secrets.values(), *context.tokens.values())}
    return frozenset(
        name
        for name, value in arguments.items()
        if isinstance(value, str) and value and (name in question.secrets or value in known)
    )


def _where(question: Question) -> Iterator[DisplayRow]:
    tool = question.call.tool
    named = f"calls itself {visible(question.title)!r}" if question.title else ""
    yield DisplayRow("part", "site", origin(question.site) if "://" in question.site else visible(question.site), named)
    strange = warning(question.site)
    if strange:
        yield DisplayRow("warning", "address", strange)
    yield DisplayRow("part", "tool", visible(tool.name), visible(tool.description.strip().partition("\n")[0]))
    yield DisplayRow("part", "sends", visible(question.target))
    if question.request is not None and question.request.body:
        yield DisplayRow("part", "body", f"{len(question.request.body):,} bytes")


def _arguments(question: Question) -> Iterator[DisplayRow]:
    secret, schemas = secrets_of(question), question.call.tool.parameters
    for name, value in question.call.arguments.items():
        text, note = visible_json(value), _size(value)
        if name in secret:
            text, note = "*" * 8, f"secret, {len(value):,} characters"
        elif _is_marked(schemas.get(name, {})):
            note = "; ".join(part for part in ("the site calls it a secret", note) if part)
        place = visible(question.places.get(name, ""))
        yield DisplayRow("argument", visible(name), text, "; ".join(part for part in (place, note) if part))
    if not question.call.arguments:
        yield DisplayRow("part", "arguments", "none")


def _terms(question: Question) -> Iterator[DisplayRow]:
    tool = question.call.tool
    yield DisplayRow("part", "destroys something", "yes" if tool.destructive else "no")
    yield DisplayRow("part", "costs", str(tool.cost or "not declared"))
    if question.credential:
        yield DisplayRow("part", "signed with", visible(question.credential))
    brought = _brought(question)
    if brought:
        yield DisplayRow("part", "sends along", visible(", ".join(brought)))
    scopes = scopes_of(tool)
    if scopes:
        yield DisplayRow("part", "scopes", visible(", ".join(scopes)))
    yield DisplayRow("part", "calls left", "not limited" if question.remaining is None else f"{question.remaining:,}")
    for change in question.changes:
        yield DisplayRow("warning", "changed since it was approved", visible(change))
    for reason in question.reasons:
        yield DisplayRow("warning", "why", visible(reason))


def _brought(question: Question) -> list[str]:
    """Return the credentials in the context of a call that its tool requires, and is therefore sent."""
    needs, has = question.call.tool.requirements, question.call.context
    found = [f"your token for {one.id}" for one in needs.authorization if one.id in has.tokens]
    found += [f"your secret {id_}" for id_ in needs.secrets if id_ in has.secrets]
    return [*found, "your user id"] if needs.user_id and has.user_id is not None else found


def _size(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    notes = [f"{len(text):,} characters"] if len(text) > _LONG else []
    unseen = hidden(text)
    if unseen:
        notes.append(f"{unseen:,} hidden")
    return ", ".join(notes)


def _is_marked(schema: Schema) -> bool:
    return schema.get("writeOnly") is True or schema.get("format") == "password"
