"""Read what a site suggests after a call: how to display its result, and which calls usually follow.

Rules:
- It is advice. A part that cannot be read is left out, and no part is ever treated as markup.
- Next steps are given only after a success, as data.
"""
# XL-074, XL-075: the rules above.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias

from toolwire.core.json_pointer import MISSING, escape_step, resolve_pointer
from toolwire.core.model import Json, Tool, copy_tool
from toolwire.core.url_origin import get_origin

from .xllm import HINTS_KEY, collect_extra_members

RenderForm: TypeAlias = Literal["text", "card", "list", "table", "json", "image", "link", "none"]

_FORMS: Final[Mapping[str, RenderForm]] = {
    "text": "text",
    "card": "card",
    "list": "list",
    "table": "table",
    "json": "json",
    "image": "image",
    "link": "link",
    "none": "none",
}
_TEXTS: Final = ("title", "subtitle", "body")
_URLS: Final = ("image", "url")
_MAX_STEPS: Final = 20
_MAX_FIELDS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDisplay:
    """How the site suggests to display a result: a form, texts and URLs by part, and further fields by name.

    ``items`` is how many items of a list to show, or ``None``. All texts are untrusted.
    """

    form: RenderForm = "text"
    parts: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Json] = field(default_factory=dict)
    items: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """A call that may follow: the operation, when to use it, and the arguments that this call already gives."""

    operation: str
    when: str = ""
    arguments: Mapping[str, Json] = field(default_factory=dict)


class ItemList(NamedTuple):
    """The items of a result, and the JSON Pointer to the first of them."""

    items: Sequence[Json]
    first: str


def has_display(tool: Tool) -> bool:
    """Return whether the site suggests how to display results of ``tool``."""
    return isinstance(collect_extra_members(tool).get("result"), dict)


def find_items(value: Json) -> ItemList | None:
    """Return the items of ``value``: it is a list, or an object with exactly one member that is a list."""
    if isinstance(value, list):
        return ItemList(value, "/0")
    lists = [(name, one) for name, one in value.items() if isinstance(one, list)] if isinstance(value, dict) else []
    return ItemList(lists[0][1], f"/{escape_step(lists[0][0])}/0") if len(lists) == 1 else None


def build_item_display(tool: Tool, found: ItemList, index: int) -> ResultDisplay:
    """Return how to display one of the items: a pointer leads into the first item, or from the top of each item."""
    data = collect_extra_members(tool).get("result")
    if not isinstance(data, dict):
        return ResultDisplay()
    item, inside = found.items[index], f"{found.first}/"

    def resolve(pointer: Json) -> Json:
        if isinstance(pointer, str) and pointer.startswith(inside):
            pointer = pointer[len(found.first) :]
        return resolve_pointer(item, pointer)

    return _build_display(data, resolve)


def build_display(tool: Tool, value: Json) -> ResultDisplay:
    """Return how to display ``value``, a result of ``tool``."""
    # XL-074
    data = collect_extra_members(tool).get("result")
    return _build_display(data, partial(resolve_pointer, value)) if isinstance(data, dict) else ResultDisplay()


def _build_display(data: Mapping[str, Json], resolve: Callable[[Json], Json]) -> ResultDisplay:
    render = data.get("render")
    form: RenderForm = _FORMS.get(render, "text") if isinstance(render, str) else "text"
    parts: dict[str, str] = {}
    for name in (*_TEXTS, *_URLS):
        found = resolve(data.get(name))
        if isinstance(found, str) and (name in _TEXTS or _is_web(found)):
            parts[name] = found
    listed = data.get("fields")
    named = [one for one in listed if isinstance(one, str)][:_MAX_FIELDS] if isinstance(listed, list) else []
    most = data.get("maxItems")
    return ResultDisplay(
        form=form,
        parts=parts,
        fields={one: found for one in named if (found := resolve(one)) is not MISSING},
        items=most if type(most) is int and most >= 1 else None,
    )


def list_next_steps(
    tool: Tool, arguments: Mapping[str, Json], value: Json, known: Sequence[str]
) -> tuple[NextStep, ...]:
    """Return the next steps after a call of ``tool`` that returned ``value``; only operations in ``known`` are listed.

    An argument whose expression cannot be worked out is left out.
    """
    # XL-075
    data = collect_extra_members(tool).get("next")
    steps: list[NextStep] = []
    for one in data[:_MAX_STEPS] if isinstance(data, list) else ():
        operation = one.get("operationId") if isinstance(one, dict) else None
        if not isinstance(operation, str) or operation not in known:
            continue
        when, expressions = one.get("when"), one.get("args")
        worked_out = {
            name: found
            for name, text in (expressions.items() if isinstance(expressions, dict) else ())
            if (found := _evaluate_expression(text, arguments, value)) is not MISSING
        }
        steps.append(NextStep(operation=operation, when=when if isinstance(when, str) else "", arguments=worked_out))
    return tuple(steps)


def has_next_steps(tool: Tool) -> bool:
    """Return whether the site suggests calls after one of ``tool``."""
    return "next" in collect_extra_members(tool)


def rename_next_steps(tool: Tool, find_name: Callable[[str], str | None]) -> Tool:
    """Return ``tool`` with other names in its next steps; a step whose operation gets no name is left out."""

    def rename(steps: Json) -> list[Json]:
        return [
            {**one, "operationId": name}
            for one in (steps if isinstance(steps, list) else ())
            if isinstance(one, Mapping)
            and isinstance(operation := one.get("operationId"), str)
            and (name := find_name(operation)) is not None
        ]

    def rewrite(facts: Json) -> Json:
        if not isinstance(facts, Mapping):
            return facts
        own = {"next": rename(facts["next"])} if isinstance(facts.get("next"), list) else {}
        inner = {HINTS_KEY: rewrite(facts[HINTS_KEY])} if isinstance(facts.get(HINTS_KEY), Mapping) else {}
        return {**facts, **own, **inner}

    return copy_tool(tool, hints={key: rewrite(facts) for key, facts in tool.hints.items()})


def _evaluate_expression(text: Json, arguments: Mapping[str, Json], value: Json) -> Json:
    """Return the value of an OpenAPI runtime expression for this call; any other text is returned as it is."""
    if not isinstance(text, str):
        return MISSING
    if not text.startswith("$"):
        return text
    place, _, pointer = text.partition("#")
    if place == "$response.body":
        return resolve_pointer(value, pointer)
    if place == "$request.body":
        return resolve_pointer(dict(arguments), pointer)
    for start in ("$request.path.", "$request.query.", "$request.header."):
        if text.startswith(start):
            return arguments.get(text.removeprefix(start), MISSING)
    return MISSING


def _is_web(url: str) -> bool:
    return get_origin(url) != ""
