"""Ask the user at the terminal within which bounds an "always" holds."""
# CC-03

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeVar

from toolwire.consent.bound_text import (
    ANY,
    UPPER,
    build_bounds,
    find_default_least,
    list_absent,
    parse_bounds,
    parse_least,
    parse_until,
    parse_uses,
)
from toolwire.consent.display import find_secrets
from toolwire.consent.grant import describe_bounds
from toolwire.core.check import Question
from toolwire.core.errors import DefinitionError
from toolwire.core.grant_bounds import GrantBounds, list_conditions
from toolwire.core.model import Condition
from toolwire.framing.visible_text import make_visible, make_visible_json

from .screen import escaped, print_error

T = TypeVar("T")

_TRIES: Final = 3
_USES: Final = "10"
_MAX_SHOWN: Final = 60
_HELP: Final = (
    "Later calls without a question. For each argument: Enter for this value only, * for any value, or a comparison"
    " such as <= 50, in Ada, Bob or within /srv/reports. For numbers also sum 200: all these calls together at most."
)


def ask_bounds(question: Question, read: Callable[[str], str]) -> GrantBounds | None:
    """Return the bounds that the user enters and confirms, or None; ``read`` shows a prompt and returns the answer."""
    print(_HELP, file=sys.stderr)
    try:
        bounds = _read_bounds(question, read)
    except DefinitionError as error:
        print_error(str(error))
        return None
    end = bounds.until
    until = "for 30 days" if end is None else f"until {datetime.fromtimestamp(end, UTC):%Y-%m-%d %H:%M UTC}"
    more = f", and {len(bounds.tools)} more tools" if bounds.tools else ""
    covered = describe_bounds(list_conditions(bounds), bounds.uses)
    print(f"Without a question: {covered}{more}; {until}.", file=sys.stderr)
    return bounds if read("Call it, and allow that too? [y/N] ").lower() in ("y", "yes") else None


def _read_bounds(question: Question, read: Callable[[str], str]) -> GrantBounds:
    secrets, conditions = find_secrets(question), list[Condition | None]()
    for name, value in question.call.arguments.items():
        shown = make_visible(name)
        if name in secrets:  # a grant is stored, and holds no secret
            print(f"  {shown}: any value, because it is a secret", file=sys.stderr)
            continue
        text = make_visible_json(value)
        text = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
        prompt = f"  {shown} = {text} [this value only]: "
        found = _read_entry(prompt, read, partial(parse_bounds, name, value))
        conditions += found
        if any(one.op in UPPER for one in found):
            # AT-49: whoever sets an upper bound seldom means any negative amount.
            least = find_default_least(value)
            prompt = f"  {shown} at least [{least}; {ANY} for no lower bound]: "
            conditions.append(_read_entry(prompt, read, partial(parse_least, name, value)))
    absent = list_absent(question)
    unseen = bool(absent) and _read_entry(
        f"  Other arguments ({', '.join(map(make_visible, absent))}) [never; {ANY} for any]: ", read, _parse_unseen
    )
    uses = _read_entry(f"  How many calls? [{_USES}]: ", read, lambda text: parse_uses(text or _USES))
    now = datetime.now().astimezone()
    until = _read_entry("  Until when, such as friday or 12h? [30 days]: ", read, partial(parse_until, now))
    return build_bounds(conditions, uses, until, unseen=unseen, tools=_read_similar(question, read))


def _read_similar(question: Question, read: Callable[[str], str]) -> list[str]:
    """Return which other tools the user lets the same bounds cover."""
    # QF-03
    similar = question.find_similar()
    if not similar:
        return []
    print("  Other tools with the same effect. Each asks again when the site changes it:", file=sys.stderr)
    for number, one in enumerate(similar, 1):
        needs = f"; asks unless a bound is about {', '.join(one.destinations)}" if one.destinations else ""
        print(f"    {number}. {escaped(one.name)}: {escaped(one.text)}{escaped(needs)}", file=sys.stderr)
        for change in one.changes:  # QF-01
            print(f"       changed since you approved it: {escaped(change)}", file=sys.stderr)
    prompt = f"  Within the same bounds too, such as 1, 3 [none; {ANY} for all]: "
    chosen = _read_entry(prompt, read, partial(_parse_numbers, len(similar)))
    return [similar[number - 1].definition for number in chosen]


def _parse_numbers(most: int, text: str) -> list[int]:
    if text == ANY:
        return list(range(1, most + 1))
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isascii() and part.isdigit() and len(part) <= 3 and 1 <= int(part) <= most for part in parts):
        raise DefinitionError(f"Type numbers from this list, {ANY} for all, or nothing.")
    return sorted(set(map(int, parts)))


def _read_entry(prompt: str, read: Callable[[str], str], parse: Callable[[str], T]) -> T:
    """Return what the user enters. What cannot be read is asked for again, at most twice.

    Raises:
        DefinitionError: it could not be read the last time either.
    """
    for _ in range(_TRIES - 1):
        try:
            return parse(read(prompt))
        except DefinitionError as error:
            print_error(escaped(str(error)))
    return parse(read(prompt))


def _parse_unseen(text: str) -> bool:
    if text not in ("", ANY):
        raise DefinitionError(f"Type {ANY} to include calls with these arguments, or nothing.")
    return text == ANY
