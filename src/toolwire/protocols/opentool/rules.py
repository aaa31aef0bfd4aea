"""Check an OpenTool document: one walk along the tables of its objects.

Rules:
- A walk is a list of work, not recursion, and looks at each value once: no document makes it deep or long.
- Whatever one object can break is also in the published JSON Schema: both refuse the same documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from toolwire.core.json_pointer import PathStep
from toolwire.core.model import Json
from toolwire.framing import jsontext
from toolwire.framing.report import Path, Report

from . import relations
from .references import check_references, note_reference
from .shapes import Member, SchemaForm, shape_of

_MAX_DEPTH: Final = jsontext.MAX_DEPTH


class _Task(NamedTuple):
    """An object to look at; ``owner`` is the named schema that it is, or is part of."""

    shape: str
    data: Mapping[str, Json]
    path: Path
    depth: int
    owner: str | None = None


def examine(data: Json) -> Report:
    """Return all that is wrong with ``data`` as an OpenTool document, up to 1,000 faults."""
    # OT-001..027
    report = Report()
    if not isinstance(data, dict):
        report.add_error(None, "OT-001", f"An OpenTool document must be an object, not {jsontext.describe_type(data)}.")
        return report
    tasks = [_Task("document", data, None, 1)]
    while tasks and not report.is_full:
        tasks += _check_object(tasks.pop(), report)
    check_references(report, jsontext.get_object(data, "schemas"))
    return report


def _check_object(task: _Task, report: Report) -> Iterator[_Task]:
    """Note what is wrong with one object; yield the objects in it."""
    if task.depth > _MAX_DEPTH:
        report.add_error(task.path, "D-16", f"This is nested deeper than {_MAX_DEPTH} levels.")
        return
    shape = shape_of(task.shape, task.data)
    relations.examine(shape, task.data, task.path, report)
    for member in relations.list_members(shape, task.data):
        if member.name in task.data:
            yield from _check_member(member, task, report)
        elif member.is_needed:
            report.add_error(task.path, member.rule, f'"{member.name}" is missing. It must be {member.what}.')
    if shape == "reference" and isinstance(task.data["$ref"], str):
        note_reference(task.data["$ref"], (task.path, "$ref"), task.owner, report)


def _check_member(member: Member, task: _Task, report: Report) -> Iterator[_Task]:
    value = task.data[member.name]
    path: Path = (task.path, member.name)
    match member.form, value:
        case (
            (SchemaForm.TEXT, str())
            | (SchemaForm.FLAG, bool())
            | (SchemaForm.VALUES, list())
            | (SchemaForm.ONE_OR_NULL, None)
        ):
            return
        case ((SchemaForm.ONE | SchemaForm.ONE_OR_NULL), dict()):
            yield _Task(member.shape, value, path, task.depth + 1, task.owner)
        case ((SchemaForm.LIST | SchemaForm.NAMES), list()):
            yield from _check_inner(member, enumerate(value), path, task, report)
        case SchemaForm.MAP, dict():
            yield from _check_inner(member, value.items(), path, task, report)
        case _:
            report.add_error(
                path, member.rule, f'"{member.name}" must be {member.what}, not {jsontext.describe_type(value)}.'
            )


def _check_inner(
    member: Member, parts: Iterable[tuple[PathStep, Json]], path: Path, task: _Task, report: Report
) -> Iterator[_Task]:
    due = str if member.form is SchemaForm.NAMES else dict
    for step, value in parts:
        if report.is_full:
            return
        if not isinstance(value, due):
            text = f'"{member.name}" must be {member.what}, not {jsontext.describe_type(value)}.'
            report.add_error((path, step), member.rule, text)
        elif isinstance(value, dict):
            owner = str(step) if member.name == "schemas" else task.owner
            yield _Task(member.shape, value, (path, step), task.depth + 2, owner)
