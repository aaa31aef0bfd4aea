"""Build what the user reads before a call: the same rows in a terminal, a browser and the list of questions.

Rules:
- No text is shortened. A long text is marked with its size, so that a page can fold it. The row's note counts hidden
  characters.
- Every text is escaped here, once, and can be shown unchanged.
- A file that the program sends is shown by its name, size and digest.
- Only arguments that the user or the program marks as secret are masked. Their length is shown. A site's own mark hides
  nothing.
"""
# XL-049, D-03, D-21: the user decides on the complete request, in characters that cannot deceive.

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from toolwire.core.check import Question
from toolwire.core.model import Json, Schema, Tool
from toolwire.framing.question_template import fill_template
from toolwire.framing.visible_text import count_hidden, make_visible, make_visible_json

from .headline import build_headline
from .origin_display import describe_mixed_word, find_lookalike_warning, show_site
from .tool_facts import find_scopes

_LONG_TEXT = 2_000
OWN_PRINCIPAL = "me"
"""The name of a session's user who has no other name."""
ACTION = "what happens"
"""The label of the row that summarizes a call in one line."""


class DisplayRow(NamedTuple):
    """One row: a label, a text and a note. ``kind`` is ``part``, ``argument`` or ``warning``."""

    kind: str
    label: str
    text: str
    note: str = ""

    @property
    def is_long(self) -> bool:
        """Whether a page can fold the text, if it shows the size."""
        return len(self.text) > _LONG_TEXT


def build_display_rows(question: Question) -> tuple[DisplayRow, ...]:
    """Return everything that the user must see about ``question``, in order. The first row says what will happen."""
    headline = build_headline(question.call.tool, question.call.arguments, find_unshown(question))
    return (
        DisplayRow("part", ACTION, headline.text),
        *_build_target_rows(question),
        *_build_argument_rows(question),
        *_build_term_rows(question),
    )


def needs_typed_confirmation(question: Question) -> bool:
    """Return whether the user must type a sentence to allow the call, because the tool destroys something."""
    # D-19: users press a single key too easily, out of habit.
    return question.call.tool.destructive


def confirmation_text(question: Question) -> str:
    """Return the text that the user must type to allow a destructive tool: its name and ``yes``.

    No tool name can turn this into a habitual answer, such as ``n``, ``y``, ``yes`` or nothing.
    """
    return f"{make_visible(question.call.tool.name)} yes"


def find_secrets(question: Question) -> frozenset[str]:
    """Return the names of masked arguments, which a page does not let the user change.

    The user marks them by name, or the program passes a ``Secret``. Only texts are masked.
    """
    context, arguments = question.call.context, question.call.arguments
    secrets = {one.reveal() for one in (*context.secrets.values(), *context.tokens.values())}
    return frozenset(
        name
        for name, value in arguments.items()
        if isinstance(value, str) and value and (name in question.secrets or value in secrets)
    )


def find_unshown(question: Question) -> frozenset[str]:
    """Return the names of the arguments that a page does not let the user change: secrets and files."""
    return find_secrets(question) | question.files.keys()


def _build_target_rows(question: Question) -> Iterator[DisplayRow]:
    tool = question.call.tool
    title = f"calls itself {make_visible(question.title)!r}" if question.title else ""
    if question.program:
        # FU-58: a program's address is made up and means nothing to a user.
        yield DisplayRow("part", "program", make_visible(question.program), title)
    else:
        site = show_site(question.site)
        yield DisplayRow("part", "site", site, title)
    if question.connection and not _is_from_address(question.connection, question.site):
        yield DisplayRow("part", "connection", make_visible(question.connection))
    if question.principal not in ("", OWN_PRINCIPAL):
        yield DisplayRow("part", "asked by", make_visible(question.principal))
    warning = find_lookalike_warning(question.site)
    if warning:
        yield DisplayRow("warning", "address", warning)
    yield DisplayRow("part", "tool", make_visible(tool.name), make_visible(tool.description.strip().partition("\n")[0]))
    if tool.question:
        # CC-02: in addition to the arguments, which follow in full.
        words = fill_template(tool.question, question.call.arguments, find_secrets(question))
        yield DisplayRow("part", "the site asks", words, "the words of the site")
    sends = f"a call of {tool.name} to the program, on this machine" if question.program else question.target
    yield DisplayRow("part", "sends", make_visible(sends))
    if question.request is not None and question.request.body:
        yield DisplayRow("part", "body", f"{len(question.request.body):,} bytes")


def _is_from_address(connection: str, site: str) -> bool:
    """Return whether a connection's name is only derived from the address, which the user sees anyway."""
    name, address = ("".join(filter(str.isalnum, text.casefold())) for text in (connection, site))
    return name in address or name.removeprefix("at") in address


def _build_argument_rows(question: Question) -> Iterator[DisplayRow]:
    secrets, schemas = find_secrets(question), question.call.tool.parameters
    for name, value in question.call.arguments.items():
        text, note = make_visible_json(value), _describe_text(name, value)
        if name in secrets:
            text, note = "*" * 8, f"secret, {len(value):,} characters"
        elif name in question.files:
            # MC-07: nobody can read base64. The file is named, and its digest identifies the bytes that are sent.
            text, note = make_visible(question.files[name]), ""
        elif _is_marked_secret(schemas.get(name, {})):
            # The value stays readable. Otherwise, a site could hide what it makes a user send.
            note = "; ".join(part for part in ("the site calls it a secret", note) if part)
        place = make_visible(question.places.get(name, ""))
        yield DisplayRow("argument", make_visible(name), text, "; ".join(part for part in (place, note) if part))
    if not question.call.arguments:
        yield DisplayRow("part", "arguments", "none")


def _build_term_rows(question: Question) -> Iterator[DisplayRow]:
    tool = question.call.tool
    yield DisplayRow("part", "destroys something", _describe_harm(tool))
    yield DisplayRow("part", "costs", str(tool.cost or "not declared"))
    if question.credential:
        yield DisplayRow("part", "signed with", make_visible(question.credential))
    credentials = _list_context_credentials(question)
    if credentials:
        yield DisplayRow("part", "sends along", make_visible(", ".join(credentials)))
    scopes = find_scopes(tool)
    if scopes:
        yield DisplayRow("part", "scopes", make_visible(", ".join(scopes)))
    yield DisplayRow("part", "calls left", "not limited" if question.remaining is None else f"{question.remaining:,}")
    for change in question.changes:
        yield DisplayRow("warning", "changed since it was approved", make_visible(change))
    for reason in question.reasons:
        yield DisplayRow("warning", "why", make_visible(reason))


def _describe_harm(tool: Tool) -> str:
    """Return whether a call destroys something. It is "no" only if something declares that."""
    # FU-58
    if tool.destructive:
        return "yes"
    mcp = tool.hints.get("mcp")
    annotations = mcp.get("annotations") if isinstance(mcp, Mapping) else None
    says_no = isinstance(annotations, Mapping) and annotations.get("destructiveHint") is False
    return "no" if tool.safe or tool.claimed_safe or says_no else "not declared"


def _list_context_credentials(question: Question) -> list[str]:
    """Return the credentials in the context of a call that its tool requires. They are sent with the call."""
    needs, has = question.call.tool.requirements, question.call.context
    found = [f"your token for {one.id}" for one in needs.authorization if one.id in has.tokens]
    found += [f"your secret {id_}" for id_ in needs.secrets if id_ in has.secrets]
    return [*found, "your user id"] if needs.user_id and has.user_id is not None else found


def _describe_text(name: str, value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    notes = [f"{len(text):,} characters"] if len(text) > _LONG_TEXT else []
    if mixed := describe_mixed_word(f"{name} {text}"):
        notes.append(mixed)
    if unseen := count_hidden(text):
        notes.append(f"{unseen:,} hidden")
    return ", ".join(notes)


def _is_marked_secret(schema: Schema) -> bool:
    return schema.get("writeOnly") is True or schema.get("format") == "password"
