"""Whatever a document accepts, the input schema of its tool accepts too: bodies and parameters, real and made up.

Of each document some operations are taken, the same on every run. For each of them there are the document's own
examples, values made of its schemas as ``meaning`` reads them (patterns too), and each of those with something
changed. What ``jsonschema`` finds valid by the document must be taken as an argument.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from toolwire.core.check import ALLOW
from toolwire.core.http import Request
from toolwire.core.model import Call, Tool
from toolwire.protocols.openapi.document.findings import SHOWN
from toolwire.protocols.openapi.request import build_request
from toolwire.protocols.openapi.request.media_types import get_essence, is_json
from toolwire.protocols.openapi.request.plan import Plan
from toolwire.protocols.openapi.tools.operations import OperationState
from toolwire.validation import build_arguments_check

from . import values
from .meaning import Meaning, UndecidedPatternError, without_names

OPERATIONS = 12
"""At most so many operations of a document are tried, chosen by chance, with a fixed seed."""

BODIES = 30
"""At most so many bodies that its document accepts are tried for one operation."""

PARAMETERS = 6
"""At most so many values that its document accepts are tried for one parameter."""

SEED = 2768
_CHANGES = 6
"""Tries to find one changed value that the document accepts."""

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_ODD = (
    None,
    "",
    "a b",
    "ünï",
    "x" * 300,
    "2020-01-01",
    "7",
    0,
    -1,
    7,
    2.5,
    10**12,
    True,
    False,
    [],
    {},
    ["a"],
    {"a": 1},
)
_MAX_MEMBERS = 2_000


class _Part(NamedTuple):
    """A schema of a document, and the values that it shows for it."""

    schema: Any
    examples: list[Any]


class _Operation(NamedTuple):
    """An operation as its document has it: its parameters by place and name, and its body."""

    parameters: dict[tuple[str, str], _Part]
    required: frozenset[tuple[str, str]]
    body: _Part | None


def judge_bodies(
    document: dict[str, Any], tools: tuple[Tool, ...], plans: Mapping[str, Plan], name: str, counts: Counter[str]
) -> Iterator[str]:
    """Yield one sentence for each operation that refuses what its document accepts; ``counts`` is added to."""
    chance = random.Random(f"{SEED} {name}")
    meaning = Meaning(document)
    known: dict[str, list[Any]] = {}
    for tool in tools if len(tools) <= OPERATIONS else chance.sample(tools, OPERATIONS):
        trial = _trial(meaning, tool, plans[tool.id], chance, counts, known)
        if trial is None:
            yield f"{tool.name}: its operation is not found in the document"
            continue
        counts["operations tried"] += 1
        said = list(trial.refusals())
        if said:
            yield f"{tool.name}: {said[0]}"


def judge_examples(
    document: dict[str, Any], tools: tuple[Tool, ...], plans: Mapping[str, Plan], name: str, counts: Counter[str]
) -> Iterator[str]:
    """Yield a sentence for each example of a request that its document accepts and its tool refuses."""
    meaning = Meaning(document)
    for tool in tools:
        trial = _trial(meaning, tool, plans[tool.id], random.Random(f"{SEED} {name}"), counts, {}, changes=0)
        if trial is not None:
            yield from (f"{tool.name}: {one}" for one in trial.refuse_examples())


def judge_reach(
    document: dict[str, Any], tools: tuple[Tool, ...], memo: OperationState, name: str, counts: Counter[str]
) -> Iterator[str]:
    """Yield one sentence for each tool that accepts no arguments at all, as far as is known, and no finding says so."""
    meaning = Meaning(document)
    told = {note.where for note in memo.notes}
    for tool in tools:
        schema = dict(tool.input_schema)
        if any(values.arguments(schema, full=full) is not None for full in (False, True)):
            continue
        trial = _trial(meaning, tool, memo.plans[tool.id], random.Random(f"{SEED} {name}"), Counter(), {})
        if trial is not None and trial.accepts_any():
            continue
        facts = tool.hints["openapi"]
        counts["unreachable"] += 1
        if f"{facts['method']} {facts['path'][:SHOWN]}" not in told:
            counts["unreachable without a finding"] += 1
            yield f"{tool.name}: no arguments are found that it accepts, and no finding says why"


def _trial(
    meaning: Meaning,
    tool: Tool,
    plan: Plan,
    chance: random.Random,
    counts: Counter[str],
    known: dict[str, list[Any]],
    *,
    changes: int = _CHANGES,
) -> _Trial | None:
    operation = _operation(meaning, tool, plan)
    return None if operation is None else _Trial(meaning, tool, plan, operation, chance, counts, known, changes)


class _Trial:
    """One operation, and all that is tried with it."""

    def __init__(
        self,
        meaning: Meaning,
        tool: Tool,
        plan: Plan,
        operation: _Operation,
        chance: random.Random,
        counts: Counter[str],
        known: dict[str, list[Any]],
        changes: int,
    ) -> None:
        self._meaning = meaning
        self._tool = tool
        self._plan = plan
        self._operation = operation
        self._chance = chance
        self._counts = counts
        self._known = known
        self._changes = changes
        self._check = build_arguments_check()

    def refusals(self) -> Iterator[str]:
        """Yield how a value that the document accepts is refused, once for each."""
        for arguments, what in self._valid():
            yield from self._refusal(arguments, what)

    def refuse_examples(self) -> Iterator[str]:
        """Yield how an example of a body or a parameter that the document accepts is refused."""
        parts = [*self._operation.parameters.values(), self._operation.body]
        shown = {json.dumps(one, sort_keys=True, default=str) for part in parts if part for one in part.examples}
        if not shown:
            return
        for arguments, what in self._valid():
            yield from self._refusal(arguments, what)

    def accepts_any(self) -> bool:
        """Return whether anything that the document accepts is accepted."""
        return any(self._check(Call(self._tool, arguments)) is ALLOW for arguments, _ in self._valid())

    def _valid(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield arguments that the document accepts, and of what there are several."""
        taken = {
            argument: self._parameter_values(place.place.value, place.name) for argument, place in self._declared()
        }
        least = {
            argument: taken[argument][0]
            for argument, place in self._declared()
            if taken[argument] and (place.place.value, place.name) in self._operation.required
        }
        bodies = self._bodies()
        ours = values.arguments(dict(self._tool.input_schema), full=False) or {}
        undeclared = {argument for argument, _ in self._plan.parameters} - taken.keys()
        least |= {name: ours[name] for name in undeclared & ours.keys()}  # a path may have more than is declared
        body = bodies[0] if bodies else {name: ours[name] for name in ours.keys() - taken.keys() - undeclared}
        needed = {one for one, place in self._declared() if (place.place.value, place.name) in self._operation.required}
        if not needed <= least.keys() or (self._plan.body_required and not body):
            self._counts["operations for which no arguments were made"] += 1
            return
        for argument, several in taken.items():
            for value in several:
                yield {**least, **body, argument: value}, "parameters"
        for one in bodies:
            yield {**least, **one}, "bodies"
        yield {**least, **body}, "least"

    def _declared(self) -> list[tuple[str, Any]]:
        known = self._operation.parameters
        return [(argument, one) for argument, one in self._plan.parameters if (one.place.value, one.name) in known]

    def _refusal(self, arguments: dict[str, Any], what: str) -> Iterator[str]:
        self._counts[f"{what} tried"] += 1
        verdict = self._check(Call(self._tool, arguments))
        if verdict is not ALLOW:
            self._counts[f"{what} refused"] += 1
            said = json.dumps(arguments, ensure_ascii=False, default=str)[:400]
            yield f"its document accepts {said}, and it is refused: {verdict}"[:1_000]
        elif not isinstance(build_request.build_request(self._plan, arguments), Request):
            self._counts[f"{what} not written"] += 1

    def _parameter_values(self, place: str, name: str) -> list[Any]:
        part = self._operation.parameters[place, name]
        key = json.dumps(part, sort_keys=True, default=str)
        if key not in self._known:
            self._known[key] = list(self._values(part, PARAMETERS))
        return self._known[key]

    def _bodies(self) -> list[dict[str, Any]]:
        """Return the arguments of bodies that the document accepts."""
        plan, part = self._plan, self._operation.body
        if part is None:
            return []
        if plan.whole_body is not None:
            return [{plan.whole_body: value} for value in self._values(part, BODIES)]
        names = {name: argument for argument, name in plan.properties}
        found = []

        def can_be_said(value: Any) -> bool:
            return isinstance(value, dict) and (plan.takes_more or names.keys() >= value.keys())

        for value in self._values(part, BODIES, can_be_said):
            one = {names.get(key, key): inner for key, inner in value.items()}
            found.append({**one, **{names[key]: _file(inner) for key, inner in value.items() if self._is_file(key)}})
        return found

    def _is_file(self, name: str) -> bool:
        encoding = self._plan.encodings.get(name)
        return encoding is not None and encoding.binary

    def _values(self, part: _Part, most: int, can_be_said: Callable[[Any], bool] = lambda _: True) -> Iterator[Any]:
        """Yield values that the document accepts and that can be given as arguments, each once."""
        try:
            schema = self._meaning.schema(part.schema)
            judges = [self._meaning.validator(part.schema, formats=formats) for formats in (False, True)]
            hidden = self._meaning.hidden_names(part.schema)
        except RecursionError:
            self._counts["schemas without a meaning"] += 1
            return
        seen: set[str] = set()
        wanted = list(_own(schema)) if self._changes else []
        most = max(most, len(part.examples) + 1)  # every example that is published is tried
        for value in self._candidates(schema, part.examples, wanted, most):
            plain = without_names(value, hidden)
            written = json.dumps(plain, sort_keys=True, default=str)
            if written in seen:
                continue
            seen.add(written)
            if can_be_said(plain) and any(self._is_valid(judge, plain) for judge in judges):
                yield plain
                most -= 1
                if most == 0:
                    return

    def _candidates(self, schema: dict[str, Any], examples: list[Any], wanted: list[Any], most: int) -> Iterator[Any]:
        plain = [*examples, *_made(schema)]
        yield from plain
        if not self._changes:
            return
        widest = max(plain, key=lambda one: len(one) if isinstance(one, dict) else 0, default=None)
        if isinstance(widest, dict):
            yield from ({**widest, name: None} for name in list(widest)[: most // 3])
        for number in range(most * self._changes if plain else 0):
            value = plain[number % len(plain)]
            for _ in range(self._chance.choice((1, 1, 2))):
                value = _changed(value, self._chance, wanted)
            yield value

    def _is_valid(self, judge: Any, value: Any) -> bool:
        try:
            return judge.is_valid(value)
        except (RecursionError, UndecidedPatternError):
            self._counts["values that could not be judged"] += 1
            return False


def _made(schema: dict[str, Any]) -> Iterator[Any]:
    for examples in (True, False):
        for wide in range(4):
            try:
                yield values.made(schema, wide, examples=examples)
            except values.Unmade:
                continue


def _own(schema: Any) -> Iterator[Any]:
    """Yield the values that a schema names itself, of the first of its members."""
    waiting = [schema]
    for _ in range(_MAX_MEMBERS):
        if not waiting:
            return
        one = waiting.pop(0)
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            yield from one["enum"][:20] if isinstance(one.get("enum"), list) else ()
            if "const" in one:
                yield one["const"]
            waiting.extend(one.values())


def _changed(value: Any, chance: random.Random, wanted: list[Any]) -> Any:
    """Return ``value`` with one thing in it changed, left out or added."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        name = chance.choice(list(value))
        match chance.randrange(6):
            case 0 | 1:
                return {key: one for key, one in value.items() if key != name}
            case 2:
                return {**value, chance.choice(("another", "a b")): chance.choice(_ODD)}
            case _:
                return {**value, name: _changed(value[name], chance, wanted)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        number = chance.randrange(len(value))
        match chance.randrange(5):
            case 0:
                return value[:number] + value[number + 1 :]
            case 1:
                return [*value, value[number]]
            case _:
                return [*value[:number], _changed(value[number], chance, wanted), *value[number + 1 :]]
    if wanted and chance.random() < 0.5:
        return chance.choice(wanted)
    return chance.choice((*_ODD, *_near(value)))


def _near(value: Any) -> tuple[Any, ...]:
    """Return values that are almost ``value``, and null."""
    if isinstance(value, str):
        return (None, value[:-1], value + value[-1:], value.upper(), value[::-1], value + "a", "a" + value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (None, value + 1, value - 1, value * 2, -value, value + 0.5, float(value))
    return (None,)


def _file(value: Any) -> Any:
    return ["YWJj"] * len(value) if isinstance(value, list) else "YWJj"


def _operation(meaning: Meaning, tool: Tool, plan: Plan) -> _Operation | None:
    """Return the operation of ``tool``, found by its method and path."""
    facts = tool.hints["openapi"]
    item = meaning.follow(_inside(meaning.document.get("paths")).get(facts["path"]))
    extra = _inside(_inside(item).get("additionalOperations"))
    node = meaning.follow(_inside(item).get(str(facts["method"]).lower(), extra.get(facts["method"])))
    if not isinstance(node, dict) or not isinstance(item, dict):
        return None
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for one in (*_several(meaning, item.get("parameters")), *_several(meaning, node.get("parameters"))):
        if isinstance(one, dict) and isinstance(one.get("name"), str) and isinstance(one.get("in"), str):
            known[one["in"], one["name"]] = one
    parameters = {key: _parameter(meaning, one) for key, one in known.items() if key[0] not in ("body", "formData")}
    required = frozenset(key for key, one in known.items() if one.get("required") is True or key[0] == "path")
    if "swagger" in meaning.document:
        return _Operation(parameters, required, _old_body(known))
    return _Operation(parameters, required, _body(meaning, node, plan))


def _parameter(meaning: Meaning, node: dict[str, Any]) -> _Part:
    media = next((meaning.follow(one) for one in _inside(node.get("content")).values()), None)
    if isinstance(media, dict):
        return _Part(media.get("schema", True), _examples(meaning, media))
    return _Part(node if "swagger" in meaning.document else node.get("schema", True), _examples(meaning, node))


def _old_body(known: dict[tuple[str, str], dict[str, Any]]) -> _Part | None:
    """Return the body of an operation of Swagger 2.0."""
    body = next((one for (place, _), one in known.items() if place == "body"), None)
    if body is not None:
        return _Part(body.get("schema", True), [])
    fields = {name: one for (place, name), one in known.items() if place == "formData"}
    plain = {name: {"type": "string"} if one.get("type") == "file" else one for name, one in fields.items()}
    for name, one in plain.items():
        plain[name] = {key: inner for key, inner in one.items() if key != "required"}
    required = [name for name, one in fields.items() if one.get("required") is True]
    return _Part({"type": "object", "properties": plain, "required": required}, []) if fields else None


def _body(meaning: Meaning, node: dict[str, Any], plan: Plan) -> _Part | None:
    """Return the body of an operation, of the media type that is written; None where it is text or a file."""
    content = meaning.follow(_inside(meaning.follow(node.get("requestBody"))).get("content"))
    if plan.media_type is None or plan.binary or not isinstance(content, dict):
        return None
    written = get_essence(plan.media_type)
    if not is_json(written) and written not in _FORMS:
        return None
    ranked = sorted((get_essence(key) != written, "*" in key, key) for key in content if isinstance(key, str))
    media = meaning.follow(content[ranked[0][2]]) if ranked else None
    if not isinstance(media, dict) or (ranked[0][0] and "*" not in ranked[0][2]):
        return None
    if "schema" not in media and "itemSchema" in media:
        return _Part({"type": "array", "items": media["itemSchema"]}, [])
    return _Part(media.get("schema", True), _examples(meaning, media))


def _examples(meaning: Meaning, node: dict[str, Any]) -> list[Any]:
    """Return the values that a media type or a parameter shows."""
    found = [node["example"]] if "example" in node else []
    for one in _inside(node.get("examples")).values():
        shown = meaning.follow(one)
        if isinstance(shown, dict) and ("value" in shown or "dataValue" in shown):
            found.append(shown.get("dataValue", shown.get("value")))
    return found


def _several(meaning: Meaning, value: Any) -> list[Any]:
    listed = meaning.follow(value)
    return [meaning.follow(one) for one in listed] if isinstance(listed, list) else []


def _inside(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
