"""The pages as HTML. Every value is escaped where it is written; the templates hold no script and no style."""

from __future__ import annotations

from datetime import UTC, date, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .store import Task

WORDS = {"todo": "To do", "in-progress": "In progress", "done": "Done"}

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals["words"] = WORDS


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page of ``template``; browsers ask again each time, since others may have changed what is on it."""
    html = _TEMPLATES.get_template(template).render(**values)
    return HTMLResponse(html, status, {"cache-control": "no-store"})


def board(tasks: list[Task], token: str) -> str:
    """Return the list of ``tasks`` as HTML, newest first; ``token`` is for its forms."""
    items = [(task, _digest(task.model_dump_json()), _when(task)) for task in reversed(tasks)]
    return _TEMPLATES.get_template("board.html").render(items=items, token=token)


def board_tag(tasks: list[Task]) -> str:
    """Return the ETag of the list of ``tasks``."""
    return f'"{_digest("".join(task.model_dump_json() for task in tasks) + date.today().isoformat())}"'


def show_day(seconds: float) -> str:
    """Return the day of a time in seconds since 1970, in words."""
    day = datetime.fromtimestamp(seconds, UTC).date()
    return {0: "today", 1: "yesterday"}.get((datetime.now(UTC).date() - day).days, f"{day.day} {day:%b %Y}")


def error_page(status: int, sentence: str) -> HTMLResponse:
    """Return a page that says what went wrong."""
    return page("error.html", status, sentence=sentence, name="", token="", path="")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def _when(task: Task) -> str:
    """Return the last day of ``task`` in words, and whether it is over."""
    if task.dueDate is None:
        return ""
    days = (task.dueDate - date.today()).days
    near = {0: "today", 1: "tomorrow", -1: "yesterday"}.get(days)
    text = f"Due {near}" if near else f"Due {task.dueDate.day} {task.dueDate:%b %Y}"
    return f"{text} – overdue" if days < 0 and task.status != "done" else text
