"""Make dataclasses that are quick to import: the classes of this project are most of what an import creates.

``dataclass`` of the standard library compiles six functions for each frozen class. Here only ``__init__`` is compiled;
the others are the same functions for all classes, over the fields of each (docs/decisions/0908).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from dataclasses import MISSING, Field, FrozenInstanceError

    def dataclass(**options: bool) -> Callable[[type], type]:
        """Return what ``dataclasses.dataclass`` returns for the same options.

        A class is made here if it has slots, extends no other dataclass and has no rarer options.
        """
        in_library = dataclasses.dataclass(**options)
        if set(options) - {"kw_only", "frozen", "eq"} != {"slots"} or not options["slots"]:
            return in_library
        collect_fields = dataclasses.dataclass(**options | {"frozen": False, "eq": False}, init=False, repr=False)

        def make_class(cls: type) -> type:
            if any(map(dataclasses.is_dataclass, cls.__mro__)):
                return in_library(cls)
            made = collect_fields(cls)
            _add_methods(made, frozenset(vars(cls)), options.get("frozen", False), options.get("eq", True))
            return made

        return make_class

    def _add_methods(cls: type, own: frozenset[str], frozen: bool, eq: bool) -> None:  # noqa: FBT001 - as in the library
        """Add the methods of a dataclass to ``cls``, except those whose names are in ``own``."""
        fields = dataclasses.fields(cls)
        methods = [_compile_init(cls, fields), _make_repr([field.name for field in fields if field.repr])]
        if frozen:
            methods += [*_make_state(fields), *_make_guards(cls)]
        if eq:
            is_equal, digest = _make_comparison([field.name for field in fields if field.compare])
            methods.append(is_equal)
            # Python sets it to None in a class with an ``__eq__``.
            if "__hash__" not in own or (cls.__hash__ is None and "__eq__" in own):
                cls.__hash__ = None
                if frozen:
                    _set_method(cls, digest)
        for method in methods:
            if method.__name__ not in own:
                _set_method(cls, method)
        parameters = cls.__dataclass_params__
        parameters.init = parameters.repr = True
        parameters.eq, parameters.frozen = eq, frozen

    def _set_method(cls: type, method: Callable[..., Any]) -> None:
        method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
        setattr(cls, method.__name__, method)

    class _Factory:
        """Stands for a value that the factory of a field makes."""

        def __repr__(self) -> str:
            return "<factory>"

    _FACTORY = _Factory()

    def _compile_init(cls: type, fields: tuple[Field[Any], ...]) -> Callable[..., None]:
        scope: dict[str, object] = {"_factory": _FACTORY}
        positional, by_name, lines = ["self"], list[str](), list[str]()
        for field in fields:
            name = value = field.name
            default = f"_default_{name}"
            parameter = name
            if field.default is not MISSING:
                scope[default] = field.default
                parameter = f"{name}={default}"
                value = name if field.init else default
            elif field.default_factory is not MISSING:
                scope[default] = field.default_factory
                parameter = f"{name}=_factory"
                value = f"{default}() if {name} is _factory else {name}" if field.init else f"{default}()"
            elif not field.init:
                continue
            if field.init:
                (by_name if field.kw_only else positional).append(parameter)
            # Past the lock of a frozen class, at half the cost of ``object.__setattr__``.
            scope[f"_set_{name}"] = vars(cls)[name].__set__
            lines.append(f"_set_{name}(self, {value})")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        parameters = ", ".join([*positional, *(["*"] if by_name else []), *by_name])
        text = f"def make({', '.join(scope)}):\n def __init__({parameters}):\n  " + "\n  ".join(lines or ["pass"])
        made: dict[str, Any] = {}
        # The text has names of fields alone, which are names of Python.
        exec(f"{text}\n return __init__", vars(sys.modules[cls.__module__]), made)  # noqa: S102
        init: Callable[..., None] = made["make"](**scope)
        init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
        return init

    def _make_repr(names: list[str]) -> Callable[[Any], str]:
        def __repr__(self: Any) -> str:  # noqa: N807 - a method of the class
            return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

        return recursive_repr()(__repr__)

    def _make_comparison(names: list[str]) -> tuple[Callable[[Any, object], Any], Callable[[Any], int]]:
        # Of one name, it would return no tuple.
        read = attrgetter(*names) if len(names) > 1 else lambda it: tuple([getattr(it, name) for name in names])

        def __eq__(self: Any, other: object) -> Any:  # noqa: N807 - a method of the class
            return read(self) == read(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self: Any) -> int:  # noqa: N807 - a method of the class
            return hash(read(self))

        return __eq__, __hash__

    def _make_state(fields: tuple[Field[Any], ...]) -> tuple[Callable[..., Any], ...]:
        """Return what pickles and copies an object that refuses to be set."""

        def __getstate__(self: Any) -> list[object]:  # noqa: N807 - a method of the class
            return [getattr(self, field.name) for field in fields]

        def __setstate__(self: Any, state: list[object]) -> None:  # noqa: N807 - a method of the class
            for field, value in zip(fields, state, strict=True):
                object.__setattr__(self, field.name, value)

        return __getstate__, __setstate__

    def _make_guards(cls: type) -> tuple[Callable[..., None], ...]:
        names = frozenset(cls.__slots__)

        def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807 - a method of the class
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            super(cls, self).__setattr__(name, value)

        def __delattr__(self: Any, name: str) -> None:  # noqa: N807 - a method of the class
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot delete field {name!r}")
            super(cls, self).__delattr__(name)

        return __setattr__, __delattr__
