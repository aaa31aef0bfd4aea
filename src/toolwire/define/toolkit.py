"""Collect Python functions under one title, each a tool."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, Unpack, overload

from toolwire.core.catalog import VERSION, Catalog, build_toolkit_name
from toolwire.core.errors import DefinitionError
from toolwire.core.resource_changes import ResourceChanges
from toolwire.core.server_features import PromptDefinition, ResourceDefinition, ServerFeatures, SkillDefinition

from .definition import define_function
from .feature_functions import ReaderOptions, ResourceOptions, define_prompt, define_resource
from .function import Function
from .options import Options

F = TypeVar("F", bound=Callable[..., Any])
Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any] | AbstractContextManager[Any]]
"""Returns what is entered before the first call of a toolkit, and left after the last one."""


class Toolkit:
    """A named set of functions that are served together.

    - ``title``: the name that people see. Tool IDs are made from its letters and digits.
    - ``version``: the version of each tool that does not set its own.
    - ``description``: a text for the models that use the tools. ``instructions`` is another name for it.
    - ``lifespan``: a function that returns a context manager, synchronous or asynchronous. Each server process enters
      it before the first call and leaves it after the last one. Tools read what it yields as ``context.state``.

    Raises:
        DefinitionError: ``version`` is not a semantic version, or an argument is not a string.
    """

    # OTRPC-003

    __slots__ = (
        "_catalog",
        "_changes",
        "_functions",
        "_prompts",
        "_readers",
        "_resources",
        "_skills",
        "_stems",
        "description",
        "lifespan",
        "title",
        "version",
    )

    def __init__(
        self,
        title: str,
        *,
        version: str = "1.0.0",
        description: str = "",
        instructions: str = "",
        lifespan: Lifespan | None = None,
    ) -> None:
        # FU-56: the word of other MCP frameworks for what a client is told about all tools.
        if description and instructions:
            raise DefinitionError("description and instructions are the same text. Pass only one of them.")
        description = instructions if instructions != "" else description
        for what, text in (("title", title), ("version", version), ("description", description)):
            if not isinstance(text, str):
                raise DefinitionError(f"The {what} of a toolkit must be a string, not {text!r}.")
        if VERSION.fullmatch(version) is None:
            raise DefinitionError(
                f"The toolkit {title!r} has the invalid version {version!r}. Write a semantic version, "
                "such as 1.0.0 or 1.0.0-beta.1."
            )
        if lifespan is not None and not callable(lifespan):
            raise DefinitionError(f"The lifespan of {title!r} must be a function that returns a context manager.")
        self.title: str = title
        self.lifespan: Lifespan | None = lifespan
        self.version: str = version
        self.description: str = description
        self._functions: dict[str, Function] = {}
        self._resources: dict[str, ResourceDefinition] = {}  # by URI
        self._prompts: dict[str, PromptDefinition] = {}  # by name
        self._skills: dict[str, SkillDefinition] = {}  # by URI
        self._changes = ResourceChanges()
        self._readers: dict[str, Function] = {}
        self._stems: dict[str, str] = {}  # the names that tools go by in ids, and their own
        self._catalog: Catalog | None = None

    @property
    def functions(self) -> tuple[Function, ...]:
        """The functions in the order they were added."""
        return tuple(self._functions.values())

    @property
    def readers(self) -> tuple[Function, ...]:
        """The functions behind resources, prompts and skills, in the order they were added. They are not tools."""
        return tuple(self._readers.values())

    def catalog(self) -> Catalog:
        """Return the tools, resources, prompts and skills of the toolkit.

        The object is reused until something is added.
        """
        if self._catalog is None:
            self._catalog = Catalog(
                title=self.title,
                version=self.version,
                description=self.description,
                tools=tuple(function.tool for function in self._functions.values()),
                features=ServerFeatures(
                    tuple(self._resources.values()),
                    tuple(self._prompts.values()),
                    skills=tuple(self._skills.values()),
                ),
            )
        return self._catalog

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(self, /, **options: Unpack[Options]) -> Callable[[F], F]: ...

    def tool(self, function: F | None = None, /, **options: Unpack[Options]) -> F | Callable[[F], F]:
        """Add the decorated function as a tool, and return it unchanged: ``@kit.tool`` or ``@kit.tool(...)``.

        All options are optional:

        - ``name``: the tool's name. Default: the function's name.
        - ``description``: what the tool does, for the model. Default: the docstring.
        - ``version``: the tool's version. Default: the toolkit's version.
        - ``approval``: ``"auto"`` or ``"per-call"``. Without it, clients ask before each call.
        - ``ask_when``: conditions on the arguments. A call that meets one needs consent: ``[("/amount", "gt", 50)]``.
        - ``question``: the text that the user is asked. ``{/amount}`` inserts an argument.
        - ``blanket_allowed``: whether one answer of the user can cover later calls.
        - ``destructive``: whether a call deletes or overwrites something.
        - ``idempotent``: whether repeating a call with the same arguments changes nothing more.
        - ``safe``: whether a call only reads. Default: true with ``approval="auto"``, unless the tool is
          ``destructive`` or sets ``ask_when``.
        - ``hint``: advice for the model.
        - ``cost``: ``"free"``, ``"credits"`` or ``"paid"``.
        - ``rate_limit``: such as ``"60/1m"``.
        - ``requirements``: the ``Requirements`` that a call must meet to run.
        - ``scopes``: the scopes that a caller needs to see and call the tool.
        - ``timeout_s``: the time limit of a call, in seconds. Above 300, the tool is ``long``.
        - ``long``: whether a call continues after its caller disconnects.
        - ``keep_s``: how long the result of a long call is stored, in seconds.
        - ``inline``: run a fast synchronous function on the event loop, without a thread.
        - ``deprecated``: whether a later version will remove the tool.
        - ``output_name``: the name of the result, for protocols that name results.
        - ``result``: how to show the result. Pass a form such as ``"table"``, or an object with JSON Pointers.
        - ``next``: the tools that usually follow. Pass names, or objects with ``tool``, ``when`` and ``args``.
        - ``hints``: facts for a single protocol, by the protocol's name.

        Raises:
            DefinitionError: the function cannot be a tool. The message says why, and what to change.
        """
        # RE-06: help() prints only the name of a TypedDict.
        if function is not None:
            self._add(function, options, _get_caller_names())
            return function

        def decorate(function: F) -> F:
            self._add(function, options, _get_caller_names())
            return function

        return decorate

    def add(self, function: Callable[..., Any], **options: Unpack[Options]) -> Function:
        """Add ``function`` as a tool: a function, a bound method, or any callable with a signature.

        It accepts the options of ``tool``.

        Raises:
            DefinitionError: ``function`` cannot be a tool. The message says why, and what to change.
        """
        # OTC-002, OTC-003, OTC-005
        return self._add(function, options, _get_caller_names())

    def resource(self, uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Serve the decorated function's return value as a resource: ``@kit.resource("config://app")``.

        A ``uri`` with variables, such as ``notes://{name}``, is a template. The function needs a parameter for each
        variable. It returns a string, bytes, an ``Image``, ``Audio`` or ``File``, or a list of these. Anything else is
        sent as JSON. Only MCP serves resources.

        Raises:
            DefinitionError: the function cannot be a resource. The message says why, and what to change.
        """
        # MC-08
        names = _get_caller_names()

        def decorate(function: F) -> F:
            toolkit = build_toolkit_name(self.title)
            definition, reader = define_resource(
                uri, function, options, toolkit=toolkit, version=self.version, names=names
            )
            if uri in self._resources:
                raise DefinitionError(f"{definition.name}() is a second resource at {uri}. Give it another URI.")
            self._add_reader(reader)
            self._resources[uri] = replace(definition, changes=self._changes)
            return function

        return decorate

    def notify_resource_changed(self, uri: str) -> None:
        """Notify the clients of this process that subscribed to the resource at ``uri``, if they may read it.

        Pass the URI as clients read it, with the variables of a template filled in. You can call this from any thread,
        as often as you like. Several changes within half a second are sent as one notification.

        Raises:
            DefinitionError: the toolkit has no resource at ``uri``.
        """
        # MC-06
        if all(one.match(uri) is None for one in list(self._resources.values())):
            raise DefinitionError(f"The toolkit {self.title!r} has no resource at {uri[:200]!r} that can change.")
        self._changes.add(uri)

    @overload
    def prompt(self, function: F, /) -> F: ...

    @overload
    def prompt(self, /, **options: Unpack[ReaderOptions]) -> Callable[[F], F]: ...

    def prompt(self, function: F | None = None, /, **options: Unpack[ReaderOptions]) -> F | Callable[[F], F]:
        """Serve the decorated function as a prompt that users can choose: ``@kit.prompt`` or ``@kit.prompt(...)``.

        The function returns a string, a ``PromptMessage``, or a list of both. A string becomes a message from the user.
        Only MCP serves prompts.

        Raises:
            DefinitionError: the function cannot be a prompt. The message says why, and what to change.
        """
        # MC-08
        names = _get_caller_names()

        def decorate(function: F) -> F:
            toolkit = build_toolkit_name(self.title)
            definition, reader = define_prompt(function, options, toolkit=toolkit, version=self.version, names=names)
            self._add_reader(reader)
            self._prompts[definition.name] = definition
            return function

        return decorate if function is None else decorate(function)

    def add_skills(self, folder: str | os.PathLike[str], *, scopes: Sequence[str] = ()) -> None:
        """Serve each skill in ``folder``. A skill is a folder with a SKILL.md, in the format of agentskills.io.

        The files are read now and served unchanged. Hidden files are skipped, and links are an error. ``scopes`` are
        the scopes that a caller needs to see and read the skills. Only MCP serves skills.

        Raises:
            DefinitionError: ``folder`` contains no skill, or one cannot be served. The message says why, and what to
                change.
        """
        # QF-09
        define_skills = import_module("toolwire.server.run.skill_folder").define_skills
        toolkit = build_toolkit_name(self.title)
        skill: SkillDefinition
        for skill, reader in define_skills(folder, scopes, toolkit=toolkit, version=self.version):
            if skill.uri in self._resources:
                raise DefinitionError(f"There is already a resource at {skill.uri}. Rename the skill.")
            self._add_reader(reader)
            self._skills[skill.uri] = skill
            self._resources[skill.uri] = skill.resource

    def run(self, transport: str = "stdio", *, host: str = "127.0.0.1", port: int = 8000, **options: Any) -> None:
        """Serve the toolkit until the program ends, over ``"stdio"`` or ``"http"``.

        MCP hosts start programs over ``"stdio"``. ``"http"`` serves every protocol at ``host`` and ``port``.
        ``options`` are the options of ``asgi``, such as ``api_keys``. The command ``toolwire serve FILE.py`` does the
        same without this line, and has more options.

        Raises:
            DefinitionError: the transport is unknown, or an option is not valid.
        """
        # FU-56
        import_module("toolwire.server.run_toolkit").run_toolkit(self, transport, host, port, options)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{text}: {_OTHER_WORDS[name]}" if name in _OTHER_WORDS else text)

    def _add_reader(self, reader: Function) -> None:
        if reader.tool.id in self._readers:
            kind = reader.tool.toolkit.rpartition(":")[2]
            raise DefinitionError(f"{reader.tool.name} is a second {kind} with this name. Give it another name.")
        self._readers[reader.tool.id] = reader
        self._catalog = None

    def _add(self, function: Callable[..., Any], options: Options, names: Mapping[str, Any]) -> Function:
        if isinstance(function, classmethod):
            name = function.__func__.__qualname__
            raise DefinitionError(
                f"{name}() is a class method, which is not bound yet: leave out the decorator, "
                f"and add it after the class, with kit.add({name.rpartition('<locals>.')[2]})."
            )
        if not callable(function):
            raise DefinitionError(f"{function!r} is not a function. Pass options by name, as in @kit.tool(name='...').")
        defined = define_function(
            function, options, toolkit=build_toolkit_name(self.title), version=self.version, names=names
        )
        id_ = defined.tool.id
        if id_ in self._functions:
            raise DefinitionError(
                f"{defined.tool.name}() is a second tool with the ID {id_}. Give it another name or version."
            )
        stem = id_.partition("@")[0]
        namesake = self._stems.setdefault(stem, defined.tool.name)
        if namesake != defined.tool.name:
            raise DefinitionError(
                f"{namesake} and {defined.tool.name} would both be {stem} in IDs. Rename one of them."
            )
        self._functions[id_] = defined
        self._catalog = None
        return defined


_OTHER_WORDS: Final[Mapping[str, str]] = {
    "call_tool": "open `connect(kit)` and use its `call(name, arguments)`",
    "list_tools": "`kit.catalog().tools` has the tools",
    "get_tools": "`kit.catalog().tools` has the tools",
    "add_tool": "write `kit.add(function)`",
    "mount": "serve several toolkits together: `toolwire serve a.py b.py`",
    "import_server": "serve several toolkits together: `toolwire serve a.py b.py`",
    "run_async": "serve `asgi(kit)` in your own event loop",
    "http_app": "write `asgi(kit)`",
    "streamable_http_app": "write `asgi(kit)`",
    "custom_route": "mount `asgi(kit)` in an application of your own",
}
"""What to write here for what other MCP frameworks call so."""


def _get_caller_names() -> Mapping[str, Any]:
    """Return the local names where a method of Toolkit was called, for annotations in quotes."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    return dict(frame.f_locals) if frame else {}
