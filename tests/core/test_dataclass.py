"""The dataclasses of the project are those of the standard library in everything that a program sees."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any, ClassVar, get_type_hints

import pytest

from toolwire.core import dataclass as ours


def _build(decorate: Callable[..., Any]) -> Any:
    @decorate(frozen=True, slots=True, kw_only=True)
    class Point:
        """A place."""

        name: str = field(kw_only=False)
        x: int
        y: int = 2
        words: list[str] = field(default_factory=list)
        secret: str = field(default="s", repr=False)
        note: str = field(default="", compare=False)
        total: int = field(init=False)
        made: dict[str, int] = field(init=False, default_factory=dict)
        fixed: int = field(init=False, default=7)
        kind: ClassVar[str] = "point"

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.x + self.y)

    return Point


@dataclass(frozen=True, slots=True)
class _Theirs:
    first: int
    second: tuple[int, ...] = ()


@ours.dataclass(frozen=True, slots=True)
class _Ours:
    first: int
    second: tuple[int, ...] = ()


_Point, _Standard = _build(ours.dataclass), _build(dataclass)


def test_a_class_has_the_signature_and_the_fields_of_one_of_the_library() -> None:
    assert str(inspect.signature(_Point)) == str(inspect.signature(_Standard))
    assert get_type_hints(_Point.__init__) == get_type_hints(_Standard.__init__)
    assert list(map(repr, dataclasses.fields(_Point))) == list(map(repr, dataclasses.fields(_Standard)))
    assert _Point.__match_args__ == _Standard.__match_args__
    assert repr(_Point.__dataclass_params__) == repr(_Standard.__dataclass_params__)
    assert (_Point.__slots__, _Point.__doc__, _Point.kind) == (_Standard.__slots__, _Standard.__doc__, "point")
    for name in ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"):
        assert getattr(_Point, name).__qualname__ == getattr(_Standard, name).__qualname__


def test_objects_have_the_values_and_the_text_of_those_of_the_library() -> None:
    for more in ({}, {"y": 5, "words": ["a"], "secret": "t", "note": "n"}):
        made, standard = _Point("p", x=1, **more), _Standard("p", x=1, **more)
        assert repr(made) == repr(standard)
        assert dataclasses.asdict(made) == dataclasses.asdict(standard)
    assert _Point("p", x=1).words is not _Point("p", x=1).words


@pytest.mark.parametrize("wrong", [{}, {"x": 1, "total": 3}, {"x": 1, "z": 1}, {"x": 1, "fixed": 1}])
def test_an_argument_that_is_missing_or_unknown_is_refused_in_the_same_words(wrong: dict[str, int]) -> None:
    with pytest.raises(TypeError) as expected:
        _Standard("p", **wrong)
    with pytest.raises(TypeError) as found:
        _Point("p", **wrong)
    assert str(found.value) == str(expected.value)


def test_objects_are_equal_by_the_fields_that_are_compared() -> None:
    assert _Ours(1, (2,)) == _Ours(1, (2,)) != _Ours(1)
    assert hash(_Ours(1, (2,))) == hash(_Theirs(1, (2,)))
    assert _Ours(1) != _Theirs(1)
    assert _Point("p", x=1, note="a") == _Point("p", x=1, note="b") != _Point("p", x=2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(_Point("p", x=1))  # it has a list


def test_an_object_with_one_or_no_field_has_the_hash_of_the_library() -> None:
    def build(decorate: Callable[..., Any]) -> tuple[Any, Any]:
        @decorate(frozen=True, slots=True)
        class One:
            value: int

        @decorate(frozen=True, slots=True)
        class Empty:
            pass

        return One(3), Empty()

    for made, standard in zip(build(ours.dataclass), build(dataclass), strict=True):
        assert hash(made) == hash(standard)
        assert made == copy.copy(made)
        assert repr(made) == repr(standard)


def test_nothing_of_an_object_can_be_set_or_deleted() -> None:
    point = _Point("p", x=1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'other'"):
        point.other = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert point.x == 1


def test_a_subclass_may_have_attributes_of_its_own_alone() -> None:
    class Child(_Ours):  # type: ignore[misc]  # a plain class
        """A class of a user."""

    child = Child(1)
    child.more = 2
    assert child.more == 2
    del child.more
    with pytest.raises(FrozenInstanceError):
        child.first = 2


def test_objects_are_copied_pickled_and_replaced() -> None:
    value = _Ours(1, (2, 3))
    assert copy.copy(value) == copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value
    assert dataclasses.replace(value, first=4) == _Ours(4, (2, 3))
    match value:
        case _Ours(first, second):
            assert (first, second) == (1, (2, 3))
    copied = copy.deepcopy(_Point("p", x=1, words=["a"]))
    assert (copied.words, copied.total) == (["a"], 3)


def test_methods_that_a_class_has_itself_stay() -> None:
    def build(decorate: Callable[..., Any]) -> Any:
        @decorate(frozen=True, slots=True)
        class Own:  # noqa: PLW1641 - what becomes of its hash is tested
            value: int

            def __init__(self, value: int) -> None:
                object.__setattr__(self, "value", value + 1)

            def __repr__(self) -> str:
                return f"<{self.value}>"

            def __eq__(self, other: object) -> bool:
                return isinstance(other, Own)

        @decorate(frozen=True, slots=True)
        class Hashed:
            value: int

            def __hash__(self) -> int:
                return 5

        return Own, Hashed

    (own, hashed), (own_standard, _) = build(ours.dataclass), build(dataclass)
    assert repr(own(1)) == "<2>"
    assert own(1) == own(5)
    assert hash(own(1)) == hash(own_standard(1))
    assert hash(hashed(1)) == 5


def test_a_class_that_extends_another_dataclass_has_the_fields_of_both() -> None:
    @ours.dataclass(frozen=True, slots=True)
    class Child(_Ours):
        third: int = 3

    assert repr(Child(1)).endswith("Child(first=1, second=(), third=3)")
    with pytest.raises(FrozenInstanceError):
        Child(1).third = 4  # type: ignore[misc]  # it is frozen


def test_a_text_of_an_object_that_holds_itself_ends() -> None:
    holder = _Ours(1, [])  # type: ignore[arg-type]  # a list can hold the object
    holder.second.append(holder)  # type: ignore[attr-defined]
    assert repr(holder) == "_Ours(first=1, second=[...])"


def test_a_class_that_is_not_frozen_can_be_changed_and_has_no_hash() -> None:
    @ours.dataclass(slots=True)
    class Open:
        value: int
        more: list[int] = field(default_factory=list)

    made = Open(1)
    made.value = 2
    assert made == Open(2)
    assert repr(made).endswith("Open(value=2, more=[])")
    assert copy.deepcopy(made) == made
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


def test_a_class_without_comparison_is_compared_by_identity() -> None:
    @ours.dataclass(slots=True, eq=False)
    class Node:
        value: int

    assert Node(1) != Node(1)
    assert len({Node(1), Node(1)}) == 2


def test_a_class_with_rarer_options_is_one_of_the_library() -> None:
    @ours.dataclass(frozen=True, slots=True, order=True)
    class Ranked:
        value: int

    assert Ranked(1) < Ranked(2)
