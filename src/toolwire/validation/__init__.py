"""Check a call before it runs: arguments, requirements and scopes. Imports only ``core``."""

from .arguments import Validator, build_arguments_check, compile_schema, find_schema_fault
from .data import copy_arguments
from .declared import find_declared_names, refuse_undeclared
from .patterns import PatternBudget, is_pattern
from .requirements import (
    Authorizer,
    GrantPage,
    GrantPages,
    Scopes,
    build_insufficient_scopes,
    build_requirements_check,
    check_requirements,
    check_scopes,
    filter_visible,
    find_missing,
    has_scopes,
    permits,
)

__all__ = [
    "Authorizer",
    "GrantPage",
    "GrantPages",
    "PatternBudget",
    "Scopes",
    "Validator",
    "build_arguments_check",
    "build_insufficient_scopes",
    "build_requirements_check",
    "check_requirements",
    "check_scopes",
    "compile_schema",
    "copy_arguments",
    "filter_visible",
    "find_declared_names",
    "find_missing",
    "find_schema_fault",
    "has_scopes",
    "is_pattern",
    "permits",
    "refuse_undeclared",
]
