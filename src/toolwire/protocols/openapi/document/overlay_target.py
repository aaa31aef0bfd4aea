"""Find the places that the target of an overlay names, with bounded work. Loads the JSONPath library.

Rules:
- Each value that a path looks at is one step. Filters in filters can look at every value for every value, so the steps
  of all targets of an overlay have one limit.
- Patterns in filters are matched by the engine that checks the patterns of schemas, in linear time.
"""
# D-15, D-17

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

import jsonschema_rs

from toolwire.core.lazy_import import explain_missing_module

try:
    from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError
    from jsonpath_rfc9535.filter_expressions import Expression, FilterQuery
    from jsonpath_rfc9535.function_extensions import ExpressionType, FilterFunction
    from jsonpath_rfc9535.node import JSONPathNode
    from jsonpath_rfc9535.query import JSONPathQuery
    from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
    from jsonpath_rfc9535.selectors import FilterSelector, IndexSelector, JSONPathSelector, NameSelector
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "overlay") from _error

from toolwire.framing.jsontext import MAX_DEPTH
from toolwire.validation.patterns import is_pattern

Step: TypeAlias = str | int

MIN_STEPS = 500_000
STEPS_OF_VALUE = 10
_MAX_TARGETS = 100_000
_CHARACTERS_OF_STEP = 32


class WorkExceededError(Exception):
    """The targets of an overlay look at too many values."""


class StepBudget:
    """The steps that are left for the targets of one overlay."""

    __slots__ = ("left",)

    def __init__(self, values: int = 0) -> None:
        """Allow half a million steps, and ten more for each of the ``values`` of the document."""
        self.left: int = MIN_STEPS + STEPS_OF_VALUE * values

    def spend(self, steps: int) -> None:
        """Take ``steps``.

        Raises:
            WorkExceededError: there are not so many left.
        """
        self.left -= steps
        if self.left < 0:
            raise WorkExceededError


def check_target(target: str) -> None:
    """Check that ``target`` is a JSONPath.

    Raises:
        ValueError: it is not; the message says why.
    """
    try:
        _Environment(StepBudget()).compile(target)
    except (JSONPathError, RecursionError) as error:
        raise ValueError(str(error).partition("\n")[0][:200]) from None


def find_locations(target: str, document: Any, budget: StepBudget) -> list[tuple[Step, ...]]:
    """Return the steps to each match of ``target``, without duplicates; at most 100,000 matches are read.

    Raises:
        WorkExceededError: ``budget`` does not suffice, or the document is nested too deep by now.
        ValueError: ``target`` is no JSONPath.
    """
    try:
        query = _Environment(budget).compile(target)
        _bind(query, budget)
        nodes = islice(query.finditer(document), _MAX_TARGETS)
        return list(dict.fromkeys(node.location for node in nodes))
    except RecursionError:  # the error of the library for a deep document is one, too
        raise WorkExceededError from None
    except JSONPathError as error:
        raise ValueError(str(error).partition("\n")[0][:200]) from None


class _Environment(JSONPathEnvironment):
    max_recursion_depth = 2 * MAX_DEPTH  # deeper than any document that can be read

    def __init__(self, budget: StepBudget) -> None:
        self._budget = budget
        super().__init__()

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        # RFC 9535, 2.4.6 and 2.4.7: match() is about the whole text, search() about any part of it. The library would
        # use the patterns of Python, which can take exponential time.
        self.function_extensions["match"] = _Match(self._budget, "^(?:{})$")
        self.function_extensions["search"] = _Match(self._budget, "{}")


class _Match(FilterFunction):
    """``match`` or ``search`` of RFC 9535."""

    def __init__(self, budget: StepBudget, form: str) -> None:
        self._budget = budget
        self._form = form

    @property
    def arg_types(self) -> list[ExpressionType]:
        return [ExpressionType.VALUE, ExpressionType.VALUE]

    @property
    def return_type(self) -> ExpressionType:
        return ExpressionType.LOGICAL

    def __call__(self, text: object, pattern: object) -> bool:
        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        self._budget.spend(1 + (len(text) + len(pattern)) // _CHARACTERS_OF_STEP)
        validator = _compile_pattern(self._form.replace("{}", pattern))
        return validator is not None and validator.is_valid(text)


@lru_cache(maxsize=64)
def _compile_pattern(pattern: str) -> Any:
    if not is_pattern(pattern):
        return None
    return jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())


class _CountedSelector:
    """A selector whose work is counted before it begins."""

    def __init__(self, selector: JSONPathSelector, budget: StepBudget) -> None:
        self._selector = selector
        self._budget = budget
        self._looks_at_one = isinstance(selector, NameSelector | IndexSelector)

    def resolve(self, node: JSONPathNode) -> Iterable[JSONPathNode]:
        value = node.value
        looked_at = len(value) if isinstance(value, dict | list) and not self._looks_at_one else 0
        self._budget.spend(1 + looked_at)
        return self._selector.resolve(node)


class _CountedDescent(JSONPathRecursiveDescentSegment):
    """The segment ``..``, whose work is counted node by node."""

    def __init__(self, segment: JSONPathSegment, selectors: Any, budget: StepBudget) -> None:
        super().__init__(env=segment.env, token=segment.token, selectors=selectors)
        self._budget = budget

    def _visit(self, node: JSONPathNode, depth: int = 1) -> Iterable[JSONPathNode]:
        value = node.value
        self._budget.spend(1 + (len(value) if isinstance(value, dict | list) else 0))
        return super()._visit(node, depth)


def _bind(query: JSONPathQuery, budget: StepBudget) -> None:
    """Make every segment and selector of ``query``, and of the queries in its filters, count its work."""
    segments: list[JSONPathSegment] = []
    for segment in query.segments:
        for selector in segment.selectors:
            if isinstance(selector, FilterSelector):
                _bind_expression(selector.expression, budget)
        selectors: Any = tuple(_CountedSelector(selector, budget) for selector in segment.selectors)
        if isinstance(segment, JSONPathRecursiveDescentSegment):
            segments.append(_CountedDescent(segment, selectors, budget))
        else:
            segment.selectors = selectors
            segments.append(segment)
    query.segments = tuple(segments)


def _bind_expression(expression: Expression, budget: StepBudget) -> None:
    if isinstance(expression, FilterQuery):
        _bind(expression.query, budget)
    for name in ("expression", "right", "left"):
        inner = getattr(expression, name, None)
        if isinstance(inner, Expression):
            _bind_expression(inner, budget)
    for argument in getattr(expression, "args", ()):
        if isinstance(argument, Expression):
            _bind_expression(argument, budget)
