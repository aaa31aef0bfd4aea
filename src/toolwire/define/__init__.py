"""A Python function becomes a tool: its signature the schema, its docstring the text, its types the conversion."""

from .function import Function
from .options import Options
from .signature import FunctionKind
from .toolkit import Toolkit

__all__ = ["Function", "FunctionKind", "Options", "Toolkit"]
