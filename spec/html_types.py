"""A plugin of mypy that finds text which gets into a page without ``escape_text``.

Rules:
- ``Html(...)`` takes a literal, or an f-string whose parts are ``Html``, numbers and literals.
- ``escape_text`` takes no ``Html``: it would be escaped twice.
- Only the module that defines them makes ``Html`` of other text.
"""
# D-25

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import CallExpr, ConditionalExpr, Expression, ListExpr, MemberExpr, OpExpr, StrExpr
from mypy.plugin import FunctionContext, Plugin
from mypy.types import Instance, LiteralType, Type, UnionType, get_proper_type

_HTML = "toolwire.framing.html.Html"
_ESCAPE = "toolwire.framing.html.escape_text"
_NUMBERS = ("builtins.int", "builtins.float")


class HtmlPlugin(Plugin):
    """The plugin."""

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """Return what checks a call of the function ``fullname``."""
        return {_HTML: _check_html, _ESCAPE: _check_text}.get(fullname)


def plugin(_version: str) -> type[Plugin]:
    """Return the plugin, as mypy asks for it."""
    return HtmlPlugin


def _check_html(context: FunctionContext) -> Type:
    if context.api.path.replace("\\", "/").endswith("toolwire/framing/html.py"):
        return context.default_return_type
    for part in context.args[0]:
        for fault in _find_faults(context, part):
            context.api.fail("Text in HTML: use escape_text", fault)
    return context.default_return_type


def _check_text(context: FunctionContext) -> Type:
    if any(_is_html(found) for found in context.arg_types[0]):
        context.api.fail("HTML would be escaped twice: it is no text", context.context)
    return context.default_return_type


def _find_faults(context: FunctionContext, part: Expression) -> list[Expression]:
    """Return the parts of an expression that may be text."""
    match part:
        case StrExpr():
            return []
        # An f-string is "".join([...]) for mypy, and a value in it "{:{}}".format(value, spec).
        case CallExpr(callee=MemberExpr(expr=StrExpr(value=""), name="join"), args=[ListExpr(items=items)]):
            parts = items
        case CallExpr(callee=MemberExpr(expr=StrExpr(value="{:{}}"), name="format"), args=[value, StrExpr()]):
            parts = [value]
        case _ if _is_safe(context.api.get_expression_type(part)):
            return []
        case ConditionalExpr():
            parts = [part.if_expr, part.else_expr]
        case OpExpr(op="and" | "or" | "+"):
            parts = [part.left, part.right]
        case _:
            return [part]
    return [fault for one in parts for fault in _find_faults(context, one)]


def _is_safe(kind: Type) -> bool:
    found = get_proper_type(kind)
    if isinstance(found, UnionType):
        return all(map(_is_safe, found.items))
    if isinstance(found, LiteralType):
        return True
    if not isinstance(found, Instance):
        return False
    return _is_html(found) or found.last_known_value is not None or found.type.fullname in _NUMBERS


def _is_html(kind: Type) -> bool:
    found = get_proper_type(kind)
    return isinstance(found, Instance) and found.type.fullname == _HTML
