"""The recipes of everybody, in SQLite: each account has a book of its own, and its own choices about apps."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal

from pydantic import BaseModel

Cuisine = Literal["italian", "japanese", "mexican"]


class Recipe(BaseModel):
    """A dish, and how long it takes."""

    id: str
    name: str
    cuisine: Cuisine
    minutes: int
    ingredients: list[str]


@dataclass(frozen=True, slots=True)
class Choices:
    """What the owner of a book lets apps do, whatever they asked for: the site refuses the rest."""

    save: bool = True
    delete: bool = True


_FIRST: tuple[tuple[str, str, Cuisine, int, str], ...] = (
    ("r1", "Cacio e Pepe", "italian", 20, "pasta, pecorino, pepper"),
    ("r2", "Pasta alla Norma", "italian", 45, "pasta, aubergines, tomatoes, ricotta salata"),
    ("r3", "Lasagne", "italian", 120, "pasta, ragù, béchamel, parmesan"),
    ("r4", "Oyakodon", "japanese", 30, "rice, chicken, eggs, onion"),
    ("r5", "Chilaquiles", "mexican", 30, "tortillas, salsa, eggs, cheese"),
)
_TABLES = """
CREATE TABLE IF NOT EXISTS books (owner TEXT PRIMARY KEY, save INTEGER NOT NULL, del INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS recipes (
  owner TEXT NOT NULL, id TEXT NOT NULL, data TEXT NOT NULL, favorite INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, id)
);
"""


class Books:
    """The books in the SQLite file at ``path``. Every question names whose book is meant."""

    def __init__(self, path: Path) -> None:
        self._lock = Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
        self._db.executescript(_TABLES)

    def open(self, owner: str) -> None:
        """Make a book with the first recipes for ``owner``, who has none."""
        with self._lock, self._db:
            if self._db.execute("INSERT OR IGNORE INTO books VALUES (?, 1, 1)", (owner,)).rowcount:
                self._db.executemany(
                    "INSERT INTO recipes (owner, id, data) VALUES (?, ?, ?)",
                    [(owner, row[0], _build_recipe(*row).model_dump_json()) for row in _FIRST],
                )

    def list_recipes(self, owner: str) -> list[tuple[Recipe, bool]]:
        """Return the recipes of a book, each with whether it is a favorite."""
        with self._lock:
            rows = self._db.execute("SELECT data, favorite FROM recipes WHERE owner = ? ORDER BY id", (owner,))
            return [(Recipe(**json.loads(data)), bool(favorite)) for data, favorite in rows]

    def search(self, owner: str, query: str, cuisine: str, most_minutes: float | None) -> list[Recipe]:
        """Return the recipes of a cuisine that ``query`` describes."""
        words = query.casefold().split()
        return [
            recipe
            for recipe, _ in self.list_recipes(owner)
            if recipe.cuisine == cuisine
            and (most_minutes is None or recipe.minutes <= most_minutes)
            and (not words or any(word in f"{recipe.name} {' '.join(recipe.ingredients)}".casefold() for word in words))
        ]

    def save(self, owner: str, recipe: str, *, favorite: bool = True) -> Recipe | None:
        """Make a recipe a favorite, or none, and return it; None if the book has no such recipe."""
        with self._lock:
            self._db.execute("UPDATE recipes SET favorite = ? WHERE owner = ? AND id = ?", (favorite, owner, recipe))
        return next((found for found, _ in self.list_recipes(owner) if found.id == recipe), None)

    def rename(self, owner: str, recipe: str, name: str) -> None:
        """Give a recipe another name."""
        found = next(one for one, _ in self.list_recipes(owner) if one.id == recipe)
        data = found.model_copy(update={"name": name}).model_dump_json()
        with self._lock:
            self._db.execute("UPDATE recipes SET data = ? WHERE owner = ? AND id = ?", (data, owner, recipe))

    def delete(self, owner: str, recipe: str) -> bool:
        """Delete a recipe of a book; return whether there was one."""
        with self._lock:
            gone = self._db.execute("DELETE FROM recipes WHERE owner = ? AND id = ?", (owner, recipe))
            return gone.rowcount > 0

    def list_favorites(self, owner: str) -> list[str]:
        """Return the ids of the favorites of a book."""
        return [recipe.id for recipe, favorite in self.list_recipes(owner) if favorite]

    def find_choices(self, owner: str) -> Choices:
        """Return what the owner lets apps do."""
        with self._lock:
            row = self._db.execute("SELECT save, del FROM books WHERE owner = ?", (owner,)).fetchone()
        return Choices() if row is None else Choices(bool(row[0]), bool(row[1]))

    def choose(self, owner: str, choices: Choices) -> None:
        """Keep what the owner lets apps do."""
        with self._lock:
            self._db.execute(
                "UPDATE books SET save = ?, del = ? WHERE owner = ?", (choices.save, choices.delete, owner)
            )


def _build_recipe(key: str, name: str, cuisine: Cuisine, minutes: int, ingredients: str) -> Recipe:
    return Recipe(id=key, name=name, cuisine=cuisine, minutes=minutes, ingredients=ingredients.split(", "))
