"""Turn a Python function into a tool: schema, texts and conversion of values. Imports only ``core``."""

from .dependency import Dependency, Depends
from .function import Function
from .function_kind import FunctionKind
from .options import Options
from .toolkit import Lifespan, Toolkit

__all__ = ["Dependency", "Depends", "Function", "FunctionKind", "Lifespan", "Options", "Toolkit"]
