"""Write the reference of the public Python names from their signatures and docstrings.

There is one page for each package in ``docs/reference/python``, and an index of their names in
``docs/reference/python.md``. Run ``make reference`` after a change of a public name, a signature or a public docstring.
``tests/docs`` compares the pages with what this script writes.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

INDEX = Path(__file__).resolve().parent.parent / "docs" / "reference" / "python.md"
FOLDER = INDEX.with_suffix("")
MARK = "<!-- Everything below is generated: run `make reference`. -->\n"
_LINE = 110


_RAISED = "exceptions"


class Section(NamedTuple):
    """A part of the reference: the module to import from, and what a reader needs to know before its names."""

    module: str
    title: str
    text: str
    homes: tuple[str, ...] = ()
    """Packages of ``toolwire``; the section has the public names that are defined in them. Empty: all names.

    A name belongs to the section with the longest package that holds it, and an exception to the one with ``_RAISED``.
    """
    only: tuple[str, ...] = ()
    """The names to list, for a module that has more names than its users need."""

    @property
    def page(self) -> str:
        """Return the name of the page: that of the package, or of the subject for what ``toolwire`` itself has."""
        package = self.module.removeprefix("toolwire").lstrip(".").partition(".")[0]
        return package or re.sub(r"[^a-z0-9]+", "-", self.title.lower())


SECTIONS = (
    Section(
        "toolwire",
        "Define tools",
        "Define tools with `Toolkit`. See [the options of a tool](python.md#options-of-a-tool).",
        ("define",),
    ),
    Section(
        "toolwire",
        "Serve tools",
        "Serve a toolkit with `asgi`. See [Serve tools](../how-to/serve.md).",
        ("server", "gateway"),
    ),
    Section(
        "toolwire",
        "Connect to a URL",
        "Connect with `connect` (asynchronous) or `connect_sync` (blocking). Both return a context manager. A `Session`"
        " holds what several connections share.",
        ("client", "core.selection", "core.resources"),
    ),
    Section(
        "toolwire",
        "What a connection offers",
        "`connect` gives you a `Remote`, and `connect_sync` a `SyncRemote`.",
        ("client.connection.remote", "client.connection.handle"),
    ),
    Section(
        "toolwire",
        "Consent and limits of a client",
        "See [Consent](../how-to/consent.md) and [Approvals](approvals.md).",
        ("consent", "core.check", "limits"),
    ),
    Section(
        "toolwire",
        "Tools, calls and results",
        "A call returns a `Result`: a `Value` or a `Problem`. `result.ok` tells which. These values never change.",
        ("core",),
    ),
    Section(
        "toolwire",
        "Tokens that a tool requires",
        "A server tells a caller where to grant a token that a tool requires. See [OTC](otc.md).",
        ("validation",),
    ),
    Section(
        "toolwire.client",
        "Sign in from a connection",
        "See [Sign in to a site](../how-to/sign-in.md).",
        only=("SignInUser", "SignInOptions", "ClientIdentity"),
    ),
    Section(
        "toolwire",
        "Exceptions",
        "An expected failure of a call is a `Problem`, not an exception. Exceptions are for wrong settings, and for a"
        " URL that no protocol answers at.",
        (_RAISED,),
    ),
    Section(
        "toolwire.client",
        "toolwire.client: discovery, and flows",
        "The parts that `connect` uses.",
    ),
    Section(
        "toolwire.consent",
        "toolwire.consent: the content of a question",
        "For an approver with its own display. See [Consent](../how-to/consent.md).",
        only=("build_display_rows",),
    ),
    Section(
        "toolwire.oauth",
        "toolwire.oauth: an authorization server for a site",
        "Needs the extra `toolwire[oauth]`. See [OAuth](../how-to/oauth.md).",
    ),
    Section(
        "toolwire.auth",
        "toolwire.auth: the key that signs receipts",
        "Needs the extra `toolwire[jwt]`. See [Receipts](../how-to/receipts.md).",
        only=("ReceiptKey",),
    ),
    Section(
        "toolwire.server",
        "toolwire.server: other ways to identify callers",
        "",
        only=(
            "Caller",
            "Callers",
            "AnonymousCallers",
            "CombinedCallers",
            "read_credential",
            "build_scope_challenge",
            "Headers",
            "Response",
            "load_style",
        ),
    ),
    Section(
        "toolwire.integrations.fastapi",
        "toolwire.integrations.fastapi: the routes of an existing application as tools",
        "`toolwire.integrations.starlette` has the same names for Starlette. See [FastAPI](../how-to/fastapi.md).",
    ),
    Section(
        "toolwire.integrations.asgi",
        "toolwire.integrations.asgi: the routes of any ASGI application as tools",
        "See [other frameworks](../how-to/web-frameworks.md).",
    ),
    Section("toolwire.integrations.wsgi", "toolwire.integrations.wsgi: the same for WSGI", ""),
    Section("toolwire.integrations.tool_list", "toolwire.integrations.tool_list: what models may do, on your page", ""),
    Section(
        "toolwire.limits",
        "toolwire.limits: rules for the callers of a server",
        "See [limits of a gateway](../how-to/gateway-rules.md#limits).",
        only=("CallerRules",),
    ),
    Section("toolwire.gateway", "toolwire.gateway: several toolboxes as one", "See [Gateway](../how-to/gateway.md)."),
    Section(
        "toolwire.hosting",
        "toolwire.hosting: a gateway from its file",
        "See [A gateway in Python](../how-to/gateway.md#in-python).",
    ),
    Section(
        "toolwire.console",
        "toolwire.console: pages for an operator",
        "See [the console](../how-to/console.md).",
    ),
    Section(
        "toolwire.adapters.openai",
        "toolwire.adapters.openai",
        "Each adapter needs the SDK that it is for. See [Adapters](../how-to/adapters.md).",
    ),
    Section("toolwire.adapters.openai_responses", "toolwire.adapters.openai_responses", ""),
    Section("toolwire.adapters.anthropic", "toolwire.adapters.anthropic", ""),
    Section("toolwire.adapters.gemini", "toolwire.adapters.gemini", ""),
    Section("toolwire.adapters.langchain", "toolwire.adapters.langchain", ""),
    Section("toolwire.adapters.pydantic_ai", "toolwire.adapters.pydantic_ai", ""),
    Section(
        "toolwire.adapters",
        "toolwire.adapters: calls that wait for the user",
        "What the adapters of [frameworks of agents](../how-to/agent-frameworks.md) are made of.",
    ),
    Section(
        "toolwire.convert", "toolwire.convert: documents of one kind as another", "See [Convert](../how-to/convert.md)."
    ),
    Section(
        "toolwire.protocols.opentool.validator",
        "toolwire.protocols.opentool.validator: faults of an OpenTool document",
        "See [Check](check.md).",
        only=("check", "Fault"),
    ),
    Section(
        "toolwire.opentool",
        "toolwire.opentool: the names of the other OpenTool SDKs",
        "See [Coming from another OpenTool SDK](../how-to/coming-from-another-opentool-sdk.md).",
    ),
    Section(
        "toolwire.telemetry",
        "toolwire.telemetry: spans and metrics",
        "See [Observability](observability.md).",
    ),
    Section("toolwire.testing", "toolwire.testing: a server in a test", ""),
    Section(
        "toolwire.testing.server_checks",
        "toolwire.testing.server_checks: conformance checks of any server",
        "`conform` runs the checks of `toolwire conform`, for the tests of a server."
        " See [Conform](../how-to/conform.md).",
    ),
)
# Modules for frameworks that are not installed where the pages are made. Their names are described in the how-to pages.
_OF_FRAMEWORKS = (
    *("adapters.ag2", "adapters.crewai", "adapters.google_adk", "adapters.haystack", "adapters.llama_index"),
    *("adapters.openai_agents", "adapters.smolagents", "integrations.starlette"),
)
PUBLIC_MODULES = tuple(sorted({*(one.module for one in SECTIONS), *(f"toolwire.{name}" for name in _OF_FRAMEWORKS)}))
"""The modules that programs can import from. All others are internal: they can move or change in any release."""
# Functions return these: the arguments of their constructors are not part of the API.
NOT_CONSTRUCTED = ("App", "Remote", "SyncRemote")


def write_pages() -> None:
    """Write every page of the folder, and the generated part of the index."""
    pages = build_pages()  # first: a broken module must not delete the pages
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    INDEX.write_text(build_index(INDEX.read_text(encoding="utf-8")), encoding="utf-8")


def build_index(page: str) -> str:
    """Return ``page`` with a new generated part: a table of the pages with the names on each."""
    head, mark, _ = page.partition(MARK)
    if not mark:
        raise LookupError(f"{INDEX.name} has no line {MARK!r}")
    rows = []
    for name, sections in group_sections():
        headings = [heading for _, entries in sections for heading, _ in entries]
        links = ", ".join(
            f"[`{one.rpartition('.')[2]}`]({FOLDER.name}/{name}.md#{make_anchor(one)})" for one in headings
        )
        rows.append(f"| [{find_title(sections)}]({FOLDER.name}/{name}.md) | {links} |\n")
    modules = ", ".join(f"`{name}`" for name in PUBLIC_MODULES)
    public = f"## Public modules\n\n{modules}.\n\nAll other modules are internal: they can change in any release."
    return f"{head}{MARK}\n{public}\n\n## All names\n\n| page | names |\n|---|---|\n{''.join(rows)}"


def build_pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    return {f"{name}.md": build_page(sections) for name, sections in group_sections()}


def group_sections() -> list[tuple[str, list[Described]]]:
    """Return the sections of each page, by its name, in the order of ``SECTIONS``."""
    found: dict[str, list[Described]] = {}
    for section, entries in collect_entries():
        found.setdefault(section.page, []).append((section, entries))
    return list(found.items())


def find_title(sections: list[Described]) -> str:
    """Return the title of a page: that of its section, or the package of several."""
    first = sections[0][0]
    return first.title if len(sections) == 1 else f"toolwire.{first.page}"


def build_page(sections: list[Described]) -> str:
    """Return a page: what a reader needs to know, then each name with its signature, its text and its members."""
    parts = [f"{MARK}\n# {find_title(sections)}\n\n"]
    for section, entries in sections:
        parts += [f"## {section.title}\n\n"] if len(sections) > 1 else []
        # A page lies one folder below the index, whose links the text has.
        parts += [re.sub(r"\]\((?=[\w.])", "](../", section.text) + "\n\n"] if section.text else []
        mark = "###" if len(sections) > 1 else "##"
        for heading, entry in entries:
            parts.append(f"{mark} `{heading}`\n\n```text signature\n{entry.signature}\n```\n\n")
            parts.append(f"{entry.text}\n\n{entry.members}")
    return "".join(parts).rstrip("\n") + "\n"


def collect_entries() -> list[Described]:
    """Return the entries of each section with their headings; what two sections have is in the first."""
    sections = [(section, list(list_names(section))) for section in SECTIONS]
    missing = set(import_module("toolwire").__all__) - {name for _, names in sections for name in names}
    if missing:
        raise LookupError(f"no section has {sorted(missing)}: add their package to SECTIONS")
    listed: dict[int, str] = {}
    found = []
    for section, names in sections:
        entries = []
        for name in names:
            value = getattr(import_module(section.module), name)
            if id(value) in listed:
                continue
            listed[id(value)] = name
            heading = name if section.module == "toolwire" else f"{section.module}.{name}"
            entries.append((heading, describe(import_module(section.module), name, value)))
        found.append((section, entries))
    return found


def make_anchor(heading: str) -> str:
    """Return the anchor of a name."""
    return heading.lower().replace(".", "")


def list_names(section: Section) -> Iterator[str]:
    """Yield the public names of a section in the order of their module's ``__all__``."""
    module = import_module(section.module)
    names = section.only or getattr(module, "__all__", None) or own_names(module)
    for name in names:
        if not section.homes or find_home(module, name) in section.homes:
            yield name


def find_home(module: ModuleType, name: str) -> str:
    """Return the one of all ``homes`` that a public name belongs to, or its own module if there is none."""
    value = getattr(module, name)
    if inspect.isclass(value) and issubclass(value, Exception):
        return _RAISED
    own = find_source(module, name)[0].__name__.removeprefix("toolwire.")
    homes = (home for section in SECTIONS for home in section.homes if f"{own}.".startswith(f"{home}."))
    return max(homes, key=len, default=own)


def own_names(module: ModuleType) -> list[str]:
    """Return the public classes and functions that ``module`` defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__ and callable(value)
    ]


class Entry(NamedTuple):
    """What a page has of one name: its signature, its docstring, and the list of its members."""

    signature: str
    text: str
    members: str


Described: TypeAlias = tuple[Section, list[tuple[str, Entry]]]
"""A section, and its entries with their headings."""


def describe(module: ModuleType, name: str, value: Any) -> Entry:
    """Return the entry of the public name ``name``."""
    if inspect.isclass(value):
        text = to_markdown(inspect.getdoc(value) or "")
        bases = [f"`{one.__name__}`" for one in value.__bases__ if issubclass(one, Exception)]
        text += f"\n\nA subclass of {' and '.join(bases)}." if bases else ""
        return Entry(class_signature(name, value), text, describe_members(value))
    if inspect.isroutine(value):
        return Entry(function_signature(name, value), to_markdown(inspect.getdoc(value) or ""), "")
    _, assignment, text = find_source(module, name)
    shown = ast.unparse(assignment) if assignment else "..."
    return Entry(f"{name} = {shown}", to_markdown(inspect.cleandoc(text)), "")


def class_signature(name: str, value: type) -> str:
    """Return the line of a class, with the arguments of its constructor where there is one to call."""
    is_protocol = getattr(value, "_is_protocol", False)
    has_own_constructor = not issubclass(value, Exception) or "__init__" in vars(value)
    if issubclass(value, Enum) or is_protocol or name in NOT_CONSTRUCTED or not has_own_constructor:
        return f"class {name}"
    signature = inspect.signature(value).replace(return_annotation=inspect.Signature.empty)
    return "class " + format_signature(name, signature)


def function_signature(name: str, function: Callable[..., Any]) -> str:
    """Return the first line of a function's definition."""
    before = "async def " if inspect.iscoroutinefunction(function) else "def "
    return before + format_signature(name, inspect.signature(function))


def format_signature(name: str, signature: inspect.Signature) -> str:
    """Return ``name`` and its parameters, on one line or one parameter a line."""
    parameters = [
        one.replace(default=_Shown(one.default)) if one.default is not inspect.Parameter.empty else one
        for one in signature.parameters.values()
        if one.name != "self"
    ]
    signature = signature.replace(parameters=parameters)
    texts = split_parameters(signature)
    returns = "" if signature.return_annotation is signature.empty else f" -> {plain(signature.return_annotation)}"
    line = f"{name}({', '.join(texts)}){returns}"
    if len(line) <= _LINE:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + f"){returns}"


class _Shown:
    """A default value, with the ``repr`` that a reader can use."""

    def __init__(self, value: object) -> None:
        self._text = _default_text(value)

    def __repr__(self) -> str:
        return self._text


def _default_text(value: object) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        try:
            is_plain = type(value)() == value
        except TypeError:  # it has fields without a default
            is_plain = False
        if is_plain:
            return f"{type(value).__name__}()"
    text = repr(value)
    # A function or a sentinel has its address in its repr, which is another in each run.
    return "..." if " at 0x" in text or text.startswith("<") or len(text) > _LINE // 2 else text


def split_parameters(signature: inspect.Signature) -> list[str]:
    """Return the text of each parameter, with the marks ``/`` and ``*`` between them."""
    texts: list[str] = []
    kinds = [one.kind for one in signature.parameters.values()]
    for index, one in enumerate(signature.parameters.values()):
        is_first_keyword = one.kind is one.KEYWORD_ONLY and one.kind not in kinds[:index]
        if is_first_keyword and one.VAR_POSITIONAL not in kinds[:index]:
            texts.append("*")
        texts.append(str(one.replace(annotation=_Plain(one.annotation)) if one.annotation is not one.empty else one))
        if one.kind is one.POSITIONAL_ONLY and one.kind not in kinds[index + 1 :]:
            texts.append("/")
    return texts


class _Plain:
    """An annotation, with the ``repr`` that stands in the source."""

    def __init__(self, annotation: object) -> None:
        self._text = plain(annotation)

    def __repr__(self) -> str:
        return self._text


def plain(annotation: object) -> str:
    """Return an annotation as its source has it, without quotes and module names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text.strip("'\""))


def describe_members(value: type) -> str:
    """Return a list of the public members of a class: values of an enum, properties and methods."""
    if issubclass(value, Enum):
        return "\n".join(f"- `{one.name}` = `{one.value!r}`" for one in value) + "\n\n"
    members = "".join(describe_member(name, member) for name, member in public_members(value).items())
    return f"Properties and methods:\n\n{members}" if members else ""


def public_members(value: type) -> Mapping[str, Any]:
    """Return the methods and properties that a user may use, in the order of their definition."""
    found: dict[str, Any] = {}
    for owner in reversed([one for one in value.__mro__ if one.__module__.startswith("toolwire")]):
        found |= {
            name: member
            for name, member in vars(owner).items()
            if not name.startswith("_")
            and isinstance(member, property | functools.cached_property | staticmethod | classmethod | Callable)
            and not inspect.isclass(member)
        }
    return found


def describe_member(name: str, member: Any) -> str:
    """Return one item of the list of members."""
    if isinstance(member, property):
        returns = inspect.signature(member.fget).return_annotation if member.fget else ""
        head = f"{name}: {plain(returns)}"
    elif isinstance(member, functools.cached_property):
        head = f"{name}: {plain(inspect.signature(member.func).return_annotation)}"
    else:
        function = getattr(member, "__func__", member)
        head = ("async " if inspect.iscoroutinefunction(function) else "") + format_member(name, member)
    text = to_markdown(inspect.getdoc(member) or "")
    return f"- `{head}`\n\n" + "".join(f"    {line}\n" if line else "\n" for line in text.split("\n")) + "\n"


def format_member(name: str, member: Any) -> str:
    """Return the signature of a method on one line, without its own object or class."""
    function = getattr(member, "__func__", member)
    signature = inspect.signature(function)
    if isinstance(member, classmethod):
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return " ".join(format_signature(name, signature).split()).replace("( ", "(").replace(", )", ")")


_SECTION = re.compile(r"^(Args|Arguments|Returns|Yields|Raises):$")
_ITEM = re.compile(r"^(\w[\w.]*): (.*)$")


def to_markdown(docstring: str) -> str:
    """Return a docstring in Google's style as Markdown."""
    lines: list[str] = []
    in_section = False
    for line in docstring.replace("``", "`").split("\n"):
        if _SECTION.match(line):
            in_section = True
            lines += [line, ""]
        elif in_section and line.startswith("    "):
            item = _ITEM.match(line.removeprefix("    "))
            lines.append(f"- `{item[1]}`: {item[2]}" if item else f"  {line.strip()}")
        else:
            in_section = in_section and not line
            lines.append(line)
    return "\n".join(lines).strip("\n")


def find_source(module: ModuleType, name: str) -> tuple[ModuleType, ast.expr | None, str]:
    """Return the module that defines ``name``, the value if it is an assignment, and the text below it."""
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        return import_module(value.__module__), None, ""
    body = list(ast.walk(ast.parse(inspect.getsource(module))))
    for node in body:
        if isinstance(node, ast.ImportFrom) and any((one.asname or one.name) == name for one in node.names):
            package = module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            return find_source(import_module(".".join([*above, *filter(None, [node.module])])), name)
    statements = ast.parse(inspect.getsource(module)).body
    for node, below in zip(statements, [*statements[1:], None], strict=True):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(one, ast.Name) and one.id == name for one in targets):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            return module, getattr(node, "value", None), str(text)
    raise LookupError(f"{module.__name__} does not define {name}")


if __name__ == "__main__":
    write_pages()
