"""Arguments against a tool's JSON Schema, with references that never leave the schema."""

from .arguments import Validator, arguments_check, compile_schema

__all__ = ["Validator", "arguments_check", "compile_schema"]
