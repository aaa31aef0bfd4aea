"""What is looked at before a call runs: arguments against their schema, requirements, scopes."""

from .arguments import Validator, arguments_check, compile_schema, schema_fault
from .authorizer import Authorizer, GrantPage, GrantPages
from .data import snapshot
from .declared import declared_names, refuse_undeclared
from .patterns import PatternBudget, is_pattern
from .requirements import authorized_by, missing, requirements_check
from .scopes import insufficient, permits, scoped, scopes_check, visible

__all__ = [
    "Authorizer",
    "GrantPage",
    "GrantPages",
    "PatternBudget",
    "Validator",
    "arguments_check",
    "authorized_by",
    "compile_schema",
    "declared_names",
    "insufficient",
    "is_pattern",
    "missing",
    "permits",
    "refuse_undeclared",
    "requirements_check",
    "schema_fault",
    "scoped",
    "scopes_check",
    "snapshot",
    "visible",
]
