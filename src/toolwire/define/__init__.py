"""Turn a Python function into a tool: schema, texts and conversion of values. Imports only ``core``."""

from .function import Function
from .options import Options
from .signature import FunctionKind
from .toolkit import Toolkit

__all__ = ["Function", "FunctionKind", "Options", "Toolkit"]
