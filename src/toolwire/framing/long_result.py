"""Give a model a long result in parts: the shape and the first part of it, and the tool ``read_result`` for the rest.

Rules:
- A part says what it is a part of, and where the next one begins. Nothing is left out without a word.
- Each value of a result can be reached: what is too long for one part is named with the path that reads it.
"""
# QF-10: the rules above.

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from toolwire.core.call_by_name import TOOLKIT
from toolwire.core.catalog import Catalog
from toolwire.core.json_pointer import MISSING, join_pointer, parse_pointer, take_step
from toolwire.core.model import Approval, Json, Kind, Problem, Tool, Value
from toolwire.core.server_features import PAGE_URIS

from . import jsontext
from .truncate_json import count_characters, truncate

READ_RESULT: Final = Tool(
    name="read_result",
    toolkit=TOOLKIT,
    description=(
        "Read more of a result that was too long to return whole. The result's notes contain its "
        "`handle`. The answer says how many items, members or lines exist, and where the `next` part "
        "begins."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "The handle that an earlier result names."},
            "path": {
                "type": "string",
                "description": (
                    "A JSON Pointer to a part of the result, such as /items/3/name. `*` means every item "
                    "of a list: /items/*/name selects one column, /items/*/id,name several. Empty means "
                    "the whole result."
                ),
            },
            "from": {
                "type": "integer",
                "minimum": 0,
                "description": "The index of the first item, member or line to read. Indexes start at 0.",
            },
            "count": {"type": "integer", "minimum": 1, "description": "How many to read (default: as many as fit)."},
        },
        "required": ["handle"],
    },
    # What comes back is a part of what another tool returned, so no schema is promised. That text may be anybody's.
    hints={"mcp": {"untyped": True, "annotations": {"openWorldHint": True}}},
    safe=True,
    idempotent=True,
    approval=Approval.AUTO,
)

_LINE_CHARACTERS: Final = 1_000
_SHAPE_CHARACTERS: Final = 1_000
_SHAPE_DEPTH: Final = 4
_SHAPE_MEMBERS: Final = 40
_SHAPE_ITEMS: Final = 20
_FOR_NOTES: Final = 5
"""One of so many parts of the room is for what is said of a part."""

MARKS: Final = frozenset({"origin", "untrusted"})
"""The notes of a value that its parts go without."""

HANDLE_START: Final = "result:"
"""How the handle of a stored result begins, which the ID of a call does not."""

PART_NOTE: Final = "part"
"""The note of a value that is a part of a result, with what is said of it beside it."""


class CutRule(NamedTuple):
    """Which results a model may get a part of: none that is a number, and none of a tool that has a page.

    ``by_default`` is for a server that was not told to cut. Then a call that may write is cut only if the server
    ``keeps_writes``, because it cannot be made again to get its result, and none of the toolkits ``with_pages`` is,
    because a page may call each tool of its server.
    """

    by_default: bool = False
    keeps_writes: bool = False
    with_pages: frozenset[str] = frozenset()

    def apply_to(self, catalog: Catalog) -> CutRule:
        """Return the rule for the tools of ``catalog``."""
        pages = (tool.toolkit for tool in catalog.tools if PAGE_URIS in tool.hints) if self.by_default else ()
        return self._replace(with_pages=frozenset(pages))

    def may_cut(self, tool: Tool) -> bool:
        """Return whether a model may get a part of what ``tool`` returns."""
        kind = None if tool.output_schema is None else tool.output_schema.get("type")
        if tool.output_schema is None or kind in ("boolean", "integer", "null", "number") or PAGE_URIS in tool.hints:
            return False
        may_run_again = tool.safe or tool.claimed_safe or self.keeps_writes
        return not self.by_default or (may_run_again and tool.toolkit not in self.with_pages)


_CUT_ALL: Final = CutRule()


def says_more(value: Value) -> bool:
    """Return whether more goes with ``value`` than marks: all but an MCP server's copy of it as text."""
    for name, note in (value.notes or {}).items():
        match note:
            case {"is_structured": True, "content": [{"type": "text", "text": str(text), **more}], **others}:
                says = bool(more or others) or jsontext.read(text.encode("utf-8", "replace")) != value.value
            case _:
                says = name not in MARKS
        if says:
            return True
    return False


def is_reading(tool: Tool) -> bool:
    """Return whether ``tool`` is ``READ_RESULT``, under any name."""
    return tool.toolkit == TOOLKIT and tool.input_schema is READ_RESULT.input_schema


def find_reading_name(catalog: Catalog, rule: CutRule = _CUT_ALL) -> str:
    """Return the name of ``READ_RESULT`` beside the tools of ``catalog``; ``""`` if ``rule`` cuts no result of them."""
    rule = rule.apply_to(catalog)
    return choose_reading_name(catalog) if any(rule.may_cut(tool) for tool in catalog.names.values()) else ""


def choose_reading_name(catalog: Catalog) -> str:
    """Return the name that ``READ_RESULT`` has beside the tools of ``catalog``; ``""`` if there is none.

    A tool of the user keeps its name, so ours has another one then.
    """
    names = (READ_RESULT.name, *(f"{TOOLKIT}_{READ_RESULT.name}{number or ''}" for number in range(100)))
    return next((name for name in names if name not in catalog.names), "")


class Part(NamedTuple):
    """A part of a result, and what is said of it: what it is a part of, and how to read on."""

    value: Json
    notes: dict[str, Json]


def cut_result(whole: Json, characters: int, name: str, handle: str) -> Part:
    """Return the first part of ``whole``, in about ``characters`` with its notes.

    ``name`` is that of ``READ_RESULT`` in the list of the model. Without a ``handle``, nothing more can be read.
    """
    part = Part(truncate(whole, characters - characters // _FOR_NOTES), {})
    # Of a list or a text, the rest begins at a whole item or line. An object keeps all its members, cut inside.
    if not isinstance(whole, Mapping) and isinstance(first := read_part(whole, {}, characters), Part):
        part = first
    notes = {**part.notes, "truncated": True, "total_characters": count_characters(whole)}
    notes["shape"] = describe_shape(whole)[: min(_SHAPE_CHARACTERS, characters // _FOR_NOTES)]
    if not handle:
        advice = "This is the first part of a result that is too long to store. Narrow the call, or ask for a page."
        return Part(part.value, {**notes, "advice": advice})
    advice = (
        f"This is the first part of a long result. Read the rest with {name}. `path` is a JSON Pointer, "
        "or columns of a list, such as /items/*/id,name. `from` and `count` choose items, members or "
        "lines."
    )
    return Part(part.value, {**notes, "handle": handle, "advice": advice})


def mark_part(part: Part) -> Value:
    """Return ``part`` as a value beside its notes, marked as a part."""
    return Value({"result": part.value, "notes": part.notes}, {PART_NOTE: True})


def describe_shape(value: Json, depth: int = _SHAPE_DEPTH) -> str:
    """Return what ``value`` consists of, such as ``{orders: 3200 of {id, total}, next}``, without its contents."""
    if isinstance(value, str):
        return f"text of {value.count(chr(10)) + 1:,} lines" if "\n" in value else "text"
    if isinstance(value, list):
        inner = _describe_items(value, depth - 1) if depth else ""
        return f"{len(value):,} of {inner}" if inner else f"{len(value):,} items"
    if not isinstance(value, Mapping):
        return type(value).__name__
    return f"{{{_describe_members(value, depth - 1)}}}" if depth else f"object of {len(value):,} members"


def _describe_items(items: list[Json], depth: int) -> str:
    objects = [one for one in items[:_SHAPE_ITEMS] if isinstance(one, Mapping)]
    if objects:
        joined: dict[str, Json] = {}
        for one in objects:
            joined = {**one, **joined}
        return f"{{{_describe_members(joined, depth)}}}"
    return describe_shape(items[0], depth) if items and isinstance(items[0], list) else ""


def _describe_members(members: Mapping[str, Json], depth: int) -> str:
    texts = [
        f"{name[:100]}: {describe_shape(one, depth)}" if isinstance(one, list | Mapping) and one else name[:100]
        for name, one in list(members.items())[:_SHAPE_MEMBERS]
    ]
    return ", ".join(texts + ["..."] * (len(members) > _SHAPE_MEMBERS))


def read_part(whole: Json, arguments: Mapping[str, Json], characters: int) -> Part | Problem:
    """Return the part of ``whole`` that the ``arguments`` of a call of ``READ_RESULT`` choose, in ``characters``."""
    path, start, count = arguments.get("path", ""), arguments.get("from", 0), arguments.get("count")
    if not isinstance(path, str) or type(start) is not int or start < 0:
        return _refuse('"path" must be a JSON Pointer, and "from" an integer of at least 0.')
    if count is not None and (type(count) is not int or count < 1):
        return _refuse('"count" must be an integer of at least 1.')
    if path and not path.startswith("/"):
        path = f"/{path}"
    found = _select(whole, parse_pointer(path))
    if found is MISSING:
        return _refuse(f"This result has no {path[:200]!r}. It is {describe_shape(whole)[:_SHAPE_CHARACTERS]}.")
    return _read_from(found, path, start, count, characters)


def _refuse(text: str) -> Problem:
    return Problem(kind=Kind.INVALID_ARGUMENTS, message=text)


def _select(node: Json, steps: list[str]) -> Json:
    """Return what ``steps`` lead to, or ``MISSING``; ``*`` leads to what the others lead to from every item."""
    for index, step in enumerate(steps):
        if step == "*" and isinstance(node, list):
            rest = steps[index + 1 :]
            found = [_select_column(item, rest) for item in node]
            return MISSING if found and all(one is MISSING for one in found) else [_or_null(one) for one in found]
        node = take_step(node, step)
        if node is MISSING:
            return MISSING
    return node


def _select_column(item: Json, steps: list[str]) -> Json:
    found = _select(item, steps)
    if found is not MISSING or not steps or "," not in steps[-1]:
        return found
    # A member may have a comma in its name, so several columns are the second guess.
    row = _select(item, steps[:-1])
    names = steps[-1].split(",")
    column = {name: one for name in names if (one := take_step(row, name)) is not MISSING}
    return column or MISSING


def _or_null(found: Json) -> Json:
    return None if found is MISSING else found


def _read_from(found: Json, path: str, start: int, count: int | None, characters: int) -> Part | Problem:
    """Return the part of ``found``, which is at ``path``, from its item, member or line ``start``."""
    if isinstance(found, str):
        most = _limit_line(characters)
        is_split = isinstance(found, SplitText) and found.most == most
        units: Sequence[Json] = cast("SplitText", found).lines if is_split else _split_lines(found, most)
    elif isinstance(found, Mapping):
        units = list(found)
    elif isinstance(found, list):
        units = found
    else:
        return Part(found, {})
    total = len(units)
    if start and start >= total:
        what = "line" if isinstance(found, str) else "member" if isinstance(found, Mapping) else "item"
        return _refuse(f'{path[:200]!r} has {total:,} {what}s. "from" must be 0 to {max(0, total - 1)}.')
    end = total if count is None else start + count
    asked: Iterable[Json] = units[start : min(end, start + characters)]  # each takes at least a character
    if isinstance(found, Mapping):
        asked = ({str(name): found[str(name)]} for name in asked)
    taken, is_cut = _take(asked, characters - characters // _FOR_NOTES)
    notes: dict[str, Json] = {"from": start, "count": len(taken), "total": total}
    if start + len(taken) < total:
        notes["next"] = start + len(taken)
    if is_cut:  # a line never is
        notes["truncated"] = True
        notes["path_of_whole"] = _point_at(path, found, start)
    if isinstance(found, str):
        return Part("".join(map(str, taken)), notes)
    if isinstance(found, Mapping):
        return Part({name: one for unit in taken if isinstance(unit, Mapping) for name, one in unit.items()}, notes)
    return Part(taken, notes)


def _take(units: Iterable[Json], characters: int) -> tuple[list[Json], bool]:
    """Return the first of ``units`` that fit in ``characters``, and whether the only one of them had to be cut."""
    taken: list[Json] = []
    for unit in units:
        cost = len(jsontext.write(unit).decode()) + 1
        if cost > characters:
            return (taken, False) if taken else ([truncate(unit, characters)], True)
        taken.append(unit)
        characters -= cost
    return taken, False


def _point_at(path: str, found: Json, start: int) -> str:
    """Return the path of the item or member ``start`` of ``found``, which is at ``path``."""
    before, star, _ = path.partition("/*")
    if star:  # the item that the column is from: the path goes on from there
        return join_pointer(before, start)
    return join_pointer(path, list(found)[start] if isinstance(found, Mapping) else start)


class SplitText(str):
    """A text that is read part by part: to split it takes as long as many parts."""

    most: int
    lines: Sequence[str]


def split_text(text: str, characters: int) -> SplitText:
    """Return ``text`` with its lines, for parts of so many ``characters``."""
    split = SplitText(text)
    split.most = _limit_line(characters)
    split.lines = _split_lines(text, split.most)
    return split


def _limit_line(characters: int) -> int:
    return max(1, min(_LINE_CHARACTERS, characters // 10))


def _split_lines(text: str, most: int) -> Sequence[str]:
    """Return the lines of ``text`` with their ends; one of more than ``most`` characters counts as several."""
    return [line[at : at + most] for line in text.splitlines(keepends=True) for at in range(0, len(line), most)]
