"""Choose rows of the matrix so that each combination of ``strength`` values that can be together is in one of them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Row: TypeAlias = dict[str, str]
Combination: TypeAlias = frozenset[tuple[str, str]]


class Impossible(NamedTuple):
    """Values of two factors that cannot be together, and the sentence that the user gets who tries it."""

    pair: dict[str, list[str]]
    attempt: str
    sentence: str

    def has(self, row: Mapping[str, str]) -> bool:
        return all(row.get(factor) in values for factor, values in self.pair.items())


class Matrix(NamedTuple):
    """The factors with their values, and the pairs that are impossible."""

    factors: dict[str, list[str]]
    impossible: list[Impossible]
    extras: list[dict[str, Any]]
    python: dict[str, list[str]]


def read_matrix() -> Matrix:
    data = tomllib.loads(Path(__file__).with_name("matrix.toml").read_text(encoding="utf-8"))
    impossible = [Impossible(**one) for one in data["impossible"]]
    return Matrix(data["factors"], impossible, data["extras"], data["python"])


def complete_row(matrix: Matrix, begun: Row, prefer: Mapping[Combination, None], strength: int) -> Row | None:
    """Return a possible row with the values of ``begun`` and most of what ``prefer`` has; None if there is none."""
    if any(one.has(begun) for one in matrix.impossible):
        return None
    missing = [factor for factor in matrix.factors if factor not in begun]
    if not missing:
        return begun
    # the factor with the most values first: it decides how many rows there are
    factor = max(missing, key=lambda name: len(matrix.factors[name]))

    def count_new(value: str) -> int:
        others = combinations(begun.items(), strength - 1)
        return sum(frozenset([(factor, value), *other]) in prefer for other in others)

    def count_left(value: str) -> int:
        return left.get((factor, value), 0)

    left: dict[tuple[str, str], int] = {}
    for combination in prefer:
        for item in combination:
            left[item] = left.get(item, 0) + 1
    for value in sorted(matrix.factors[factor], key=lambda one: (-count_new(one), -count_left(one))):
        found = complete_row(matrix, {**begun, factor: value}, prefer, strength)
        if found is not None:
            return found
    return None


def list_combinations(matrix: Matrix, strength: int) -> Iterator[Row]:
    """Yield each combination of ``strength`` values that no impossible pair forbids."""
    for factors in combinations(matrix.factors, strength):
        for values in product(*(matrix.factors[factor] for factor in factors)):
            row = dict(zip(factors, values, strict=True))
            if not any(one.has(row) for one in matrix.impossible):
                yield row


def cover(matrix: Matrix, strength: int) -> tuple[Sequence[Row], Sequence[Row]]:
    """Return rows with each combination of ``strength`` values, and the combinations that no row can have."""
    waiting: dict[Combination, None] = {frozenset(one.items()): None for one in list_combinations(matrix, strength)}
    rows: list[Row] = []
    unreachable: list[Row] = []
    while waiting:
        first = dict(sorted(next(iter(waiting))))
        row = complete_row(matrix, first, waiting, strength)
        if row is None:
            unreachable.append(first)
            del waiting[frozenset(first.items())]
            continue
        rows.append({factor: row[factor] for factor in matrix.factors})
        for combination in combinations(row.items(), strength):
            waiting.pop(frozenset(combination), None)
    return rows, unreachable
