"""Arguments against a tool's JSON Schema, with references that never leave the schema."""

from .arguments import Validator, arguments_check, compile_schema
from .data import snapshot
from .requirements import missing, requirements_check

__all__ = ["Validator", "arguments_check", "compile_schema", "missing", "requirements_check", "snapshot"]
