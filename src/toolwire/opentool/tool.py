"""Define the interface of a tool in the OpenTool SDKs: one method for all calls, one for the document."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, TypeAlias

from toolwire.core.model import Json
from toolwire.protocols.opentool.objects import OpenTool

Returned: TypeAlias = Mapping[str, Json]
Loaded: TypeAlias = OpenTool | Mapping[str, Json] | None


class Tool(Protocol):
    """What can be served: ``call`` does the work, ``load`` says what there is. Both may be coroutines.

    A tool may also have, as the newer SDKs do: ``init()``, awaited before its first call; ``dispose()``, awaited
    after its last; and ``stream_call(name, arguments)``, a sync or async generator of the pieces of a function whose
    document has ``stream``.
    """

    # OTRPC-020, OTRPC-021, A-11

    def call(self, name: str, arguments: dict[str, Any], /) -> Returned | Awaitable[Returned]:
        """Return what the function ``name`` gives, an object.

        Raises:
            FunctionNotSupportedException: there is no such function.
            InvalidArgumentsException: the arguments do not fit.
            ToolBreakException: it cannot go on; the text reaches the caller, as that of nothing else raised here does.
        """
        ...

    def load(self) -> Loaded | Awaitable[Loaded]:
        """Return the document, or None where there is none: then every name may be called."""
        # OTRPC-021
        ...
