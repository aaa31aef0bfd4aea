"""The small mistakes that can be made in a module: where, of which kind, and the code that has one of them. [TE-04]

What no user can notice is left out by rule: docstrings and sentences, what is logged, `__repr__`, types, assertions
that are there for types, and decorators. Default values of parameters and what stands in the body of a class are left
out too, because a mistake is put into functions that exist already.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

OPPOSITE: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip

LOGGED = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})

MAX_WORD_LENGTH = 40

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(NamedTuple):
    """A mistake of the sort ``kind`` at ``node``, which belongs to ``statement`` in ``function``."""

    kind: str
    node: ast.AST
    statement: ast.stmt
    function: Function | None

    def list_lines(self) -> range:
        """Return the lines that run where the mistake is: those of the statement, without its block."""
        if isinstance(self.node, ast.ExceptHandler):
            return range(self.node.body[0].lineno, (self.node.body[0].end_lineno or 0) + 1)
        body = getattr(self.statement, "body", None) or getattr(self.statement, "cases", None)
        if not body:
            return range(self.statement.lineno, (self.statement.end_lineno or 0) + 1)
        first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
        return range(self.statement.lineno, max(first.lineno, self.statement.lineno + 1))


def find_places(tree: ast.Module) -> list[Place]:
    """Return each mistake that can be made in ``tree``, in the order of the code."""
    return [place for statement in tree.body for place in _visit(statement, statement, None)]


def _visit(node: ast.AST, statement: ast.stmt, function: Function | None) -> Iterator[Place]:
    if _is_idle(node, function):
        return
    if isinstance(node, ast.stmt):
        statement = node
    if function is not None or isinstance(statement, ast.Assign | ast.AnnAssign):
        yield from (Place(kind, node, statement, function) for kind in _list_kinds(node, function))
    if isinstance(node, Function):
        function = node
    for field, value in ast.iter_fields(node):
        if field in {"decorator_list", "annotation", "returns", "args"} and not isinstance(node, ast.Call):
            continue
        if isinstance(node, ast.ClassDef) and field != "body":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _visit(child, statement, function)


def _is_idle(node: ast.AST, function: Function | None) -> bool:
    """Return whether nobody who uses the program can tell what happens in ``node``."""
    match node:
        case ast.FunctionDef(name="__repr__") | ast.Assert() | ast.Pass() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant()) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Raise(exc=ast.Name(id="NotImplementedError") | ast.Call(func=ast.Name(id="NotImplementedError"))):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)):
            return (attribute in LOGGED and "log" in name.lower()) or f"{name}.{attribute}" in {
                "logging.getLogger",
                "re.compile",
            }
        case ast.Call(func=ast.Name(id=name)):
            return name in {"cast", "assert_never", "super", "TypeVar", "NewType", "ParamSpec"}
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if function is None:
            return name.startswith("__") or not node.value or isinstance(node.value, ast.Lambda)
        case ast.ClassDef(bases=bases):
            return any("Protocol" in ast.unparse(base) for base in bases)
        case ast.Constant(value=str(text)):
            return not any(map(str.isalnum, text)) or " " in text or len(text) > MAX_WORD_LENGTH
        case _:
            return False


def _list_kinds(node: ast.AST, function: Function | None) -> list[str]:
    """Return the mistakes that can be made at ``node``."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in OPPOSITE:
            return ["compare"]
        case ast.BoolOp():
            return ["and/or"]
        case ast.UnaryOp(op=ast.Not()):
            return ["not"]
        case ast.BinOp(op=op) if type(op) in OPPOSITE:
            return ["arithmetic"]
        case ast.If() | ast.IfExp():
            return ["always", "never"]
        case ast.While(test=test) if not isinstance(test, ast.Constant):
            return ["never"]
        case ast.Constant(value=bool()):
            return ["true/false"]
        case ast.Constant(value=int() | float()):
            return ["number"]
        case ast.Constant(value=str()):
            return ["word"]
        case ast.Call():
            return list(_list_kinds_of_call(node))
        case ast.ExceptHandler(body=[first, *_]) if not isinstance(first, ast.Raise) or first.exc is not None:
            return ["not caught"]
        case ast.Try(finalbody=[_, *_]):
            return ["no finally"]
        case ast.Return(value=ast.expr() as value) if function is not None:
            plain = isinstance(value, ast.Constant) and value.value is None
            return [] if plain or _has(function, ast.Yield) else ["return None"]
        case ast.stmt() if _can_be_left_out(node):
            return ["left out"]
        case _:
            return []


def _list_kinds_of_call(node: ast.Call) -> Iterator[str]:
    plain = not any(isinstance(one, ast.Starred) for one in node.args)
    if plain and len(node.args) >= 2 and ast.dump(node.args[0]) != ast.dump(node.args[1]):
        yield "swapped"
    # Copies of what nobody changes, and a type that only mypy sees.
    is_same = isinstance(node.func, ast.Name) and node.func.id in {"frozenset", "tuple", "Html"}
    if plain and len(node.args) == 1 and not node.keywords and not is_same:
        yield "argument alone"
    if node.keywords and node.keywords[-1].arg is not None:
        yield "keyword left out"


def _can_be_left_out(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) as call:
            called = call.value.value if isinstance(call.value, ast.Await) else call.value
            return not _is_idle(called, None)
        case ast.AugAssign() | ast.Raise() | ast.Delete() | ast.Break() | ast.Continue():
            return not _has(node, ast.Yield)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return not _has(node, ast.Yield)
        case _:
            return False


def _has(node: ast.AST, wanted: type[ast.AST]) -> bool:
    return any(isinstance(one, wanted) for one in ast.walk(node))


def make_mistake(place: Place) -> None:
    """Make the mistake in the tree that ``place`` is of."""
    node, kind = place.node, place.kind
    match node:
        case ast.Compare():
            node.ops = [OPPOSITE[type(node.ops[0])]()]  # type: ignore[list-item]  # the table holds operators
        case ast.BoolOp() | ast.BinOp():
            node.op = OPPOSITE[type(node.op)]()  # type: ignore[assignment]  # likewise
        case ast.UnaryOp():
            _become(node, ast.Call(ast.Name("bool", ast.Load()), [node.operand], []))
        case ast.If() | ast.IfExp() | ast.While():
            node.test = ast.Constant(kind == "always")
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=str()):
            node.value = f"x{node.value}"
        case ast.Constant():
            node.value = node.value + 1 if abs(node.value) <= 2 else node.value * 2  # type: ignore[operator]  # a number
        case ast.Call() if kind == "swapped":
            node.args[:2] = node.args[1], node.args[0]
        case ast.Call() if kind == "argument alone":
            _become(node, node.args[0])
        case ast.Call():
            node.keywords.pop()
        case ast.ExceptHandler():
            node.body = [ast.Raise()]
        case ast.Try():
            node.finalbody = [ast.Pass()]
        case ast.Return():
            node.value = None
        case _:
            _become(node, ast.Pass())
    ast.fix_missing_locations(place.statement)


def _become(node: ast.AST, other: ast.AST) -> None:
    """Turn ``node`` into ``other`` where it stands, so that its parent need not be known."""
    kept = {name: value for name, value in vars(node).items() if name.endswith(("lineno", "col_offset"))}
    fields = vars(other) | kept
    node.__class__ = other.__class__
    vars(node).clear()
    vars(node).update(fields)


def describe_place(place: Place) -> str:
    """Return the kind of the mistake and the code that it is made in, on one line."""
    node = place.node.test if isinstance(place.node, ast.If | ast.IfExp | ast.While) else place.node
    code = " ".join(ast.unparse(node).split())
    return f"{place.kind}: {code if len(code) <= 90 else code[:87] + '...'}"
