"""The main job, from end to end: three servers on loopback, and a client that is given nothing but their URLs.

``make demo`` runs it with scripted answers where a person is asked; ``make demo ASK=1`` asks you. It ends with 0 only
if every step came out as it should.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from urllib.request import Request, urlopen

from calculator import calculator
from gateway import build_shop, build_weather, run_gateway, serve
from mcp import Client
from mcp.types import ElicitRequestParams, ElicitResult
from pasta import find_and_save
from todo import todo
from visitor import Visitor

import toolwire
from toolwire import (
    Answer,
    GrantBounds,
    Problem,
    Question,
    Result,
    Session,
    SyncRemote,
    Toolkit,
    Value,
    connect,
    connect_sync,
)
from toolwire.cli.commands.explain import survey_url
from toolwire.cli.commands.tools import COLUMNS, build_rows
from toolwire.cli.terminal.prompt import read_line
from toolwire.cli.terminal.screen import apply_style, escaped, json_text, print_error
from toolwire.cli.terminal.table import print_table
from toolwire.cli.terminal.terminal_approver import build_terminal_approver, list_question
from toolwire.client.login.sign_in import SignInUser
from toolwire.consent.display import build_display_rows
from toolwire.consent.grant import describe_bounds
from toolwire.example_files.recipes.app import Settings, create_app
from toolwire.example_files.wallet import payments, wallet
from toolwire.protocols import BUILTIN
from toolwire.stores.credentials.files import CredentialStore
from toolwire.testing.loopback import background

SMALL = GrantBounds(conditions=[("/to", "eq", "Ada"), ("/amount", "le", 50)], uses=2)
TITLES = {codec.name: codec.title for codec in BUILTIN}


class UnexpectedError(Exception):
    """A step that did not come out as it should; the text says which, and what came instead."""


class Person:
    """Who is asked before a call: the one at the terminal, or a script that allows all but what destroys something."""

    def __init__(self, ask: Callable[[Question], Answer] | None) -> None:
        self._ask = ask
        self.said: list[bool] = []
        self.has_bounded = False

    def __call__(self, question: Question) -> Answer:
        """Answer ``question``, and remember what was said."""
        answer = self._scripted(question) if self._ask is None else self._ask(question)
        self.said.append(answer.allowed)
        return answer

    async def answer_form(self, _: Any, params: ElicitRequestParams) -> ElicitResult:
        """Answer a form that a server sends to an MCP client, by the same rule as ``_scripted``."""
        for line in params.message.splitlines():
            print(f"  {escaped(line)}".rstrip())
        if self._ask is None:
            allowed = "delete" not in params.message
            print(f"  Allow this call? [y/N] {'y' if allowed else 'n'} {_dim('(scripted)')}")
        else:
            print("  Allow this call? [y/N] ", end="", flush=True)
            allowed = (await asyncio.to_thread(read_line)).strip().lower() in ("y", "yes")
        self.said.append(allowed)
        return ElicitResult(action="accept", content={"allow": True}) if allowed else ElicitResult(action="decline")

    def answer_within_bounds(self, question: Question) -> Answer:
        """Answer like a person who allows this call and later ones within bounds, and denies what is outside."""
        if self._ask is not None:
            return self(question)
        _show_question(question)
        is_first = not self.has_bounded
        self.has_bounded = True
        self.said.append(is_first)
        print(f"  Call it? [y/N] {'b, within bounds' if is_first else 'n'} {_dim('(scripted)')}")
        return Answer(is_first, always=is_first, bounds=SMALL)

    def _scripted(self, question: Question) -> Answer:
        allowed = not question.call.tool.destructive
        _show_question(question)
        answer = apply_style("y", "green", sys.stdout) if allowed else apply_style("n", "red", sys.stdout)
        print(f"  Call it? [y/N] {answer} {_dim('(scripted; `make demo ASK=1` asks you)')}")
        return Answer(allowed)


def main() -> int:
    """Run the demonstration and return its exit code."""
    parser = argparse.ArgumentParser(description="Serve the examples, then use them with nothing but their URLs.")
    parser.add_argument("--ask", action="store_true", help="ask you at the terminal before a call")
    ask = parser.parse_args().ask
    if ask and not (sys.stdin.isatty() and sys.stderr.isatty()):
        print_error("--ask needs a terminal to ask at; without it the answers are scripted.")
        return 2
    started = perf_counter()
    try:
        with TemporaryDirectory(prefix="toolwire-demo-") as folder:
            serve_and_use(Path(folder), Person(build_terminal_approver("ask") if ask else None))
    except (UnexpectedError, toolwire.ToolwireError) as error:
        print_error(str(error))
        return 1
    _title("Every step came out as it should")
    print(f"  It took {perf_counter() - started:.1f} s. Now yours: .venv/bin/toolwire serve examples/calculator.py")
    return 0


def serve_and_use(folder: Path, person: Person) -> None:
    """Serve the examples on free ports, and use them. Their data and the credentials are in ``folder``."""
    database = folder / "todo.sqlite3"
    kits: tuple[Toolkit, Toolkit] = (calculator, todo(database))
    product = Product()
    with (
        background(toolwire.asgi(kits[0])) as sums,
        background(toolwire.asgi(kits[1])) as lists,
        background(product) as recipes,
    ):
        product.app = create_app(Settings(url=recipes, folder=folder))
        _title("Three servers on this machine")
        for title, url in ((kits[0].title, sums), (kits[1].title, lists), ("RecipeApp", recipes)):
            print(f"  {title:<11} {apply_style(url, 'green', sys.stdout)}")
        print(_dim("  The first two are toolkits, the third is a product on FastAPI, with accounts and OAuth."))
        print(_dim("  From here on there is a client, which is given these URLs and nothing else."))
        for url in (sums, lists):
            expect(look(url), list(TITLES))
        with connect_sync(sums) as remote:
            show_tools(remote)
            expect(call(remote, "add", {"a": 17, "b": 25}), Value(42))
        with connect_sync(lists, approve=person) as remote:
            show_tools(remote)
            use_todo(remote, database, person)
        asyncio.run(same_on_every_wire(sums))
        with background(toolwire.asgi(wallet)) as purse:
            asyncio.run(ask_in_a_foreign_client(f"{purse}/mcp", person))
            pay_within_bounds(purse, person)
        expect(look(recipes), list(TITLES))
        use_recipes(recipes, folder, person)
    use_gateway(folder / "gateway", person)


class Product:
    """An application that knows its own URL, which is known when it is served."""

    app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer as the application."""
        await self.app(scope, receive, send)


def use_recipes(url: str, folder: Path, person: Person) -> None:
    """Make an account as a person does in a browser, let toolwire in, use the tools, and take it back."""
    _title("A product with accounts: a person signs up, and lets toolwire in")
    visitor = Visitor(url)
    visitor.sign_up("Ada", "correct horse")
    print(f"  Ada has an account, and a book of recipes of her own: {visitor.read('favorites')}")
    user = SignInUser(show=lambda text: print(f"  {_dim(escaped(text))}"), open_page=visitor.open_page)
    store = CredentialStore(folder / "credentials")
    with connect_sync(url, approve=person, user=user, credential_store=store) as remote:
        show_tools(remote)
        talk(remote, visitor, person)
        _title("She takes it back on the page of connected apps")
        visitor.take_back()
        ended = call(remote, "searchRecipes", {"query": "pasta", "cuisine": "italian"})
        expect(ended.ok, False)


def use_gateway(folder: Path, person: Person) -> None:
    """Run a gateway over two servers of other makers; each of its callers sees and is asked about their own."""
    _title("A gateway over two servers of other makers: an API on FastAPI, an MCP server of the official SDK")
    folder.mkdir()
    orders, asked = list[str](), list[str]()
    with (
        serve(build_shop(orders)) as shop,
        serve(build_weather(asked).streamable_http_app()) as weather,
        run_gateway(folder, shop, weather) as url,
    ):
        print(_dim(f"  toolwire gateway run: {url}, with a file of two upstreams and the keys of Ann and Bob"))
        for key, names, name, arguments, done in (
            ("key-of-ann", ["forecast", "order"], "order", {"article": "tea"}, orders),
            ("key-of-bob", ["forecast"], "forecast", {"city": "Oslo"}, asked),
        ):
            caller = key.rpartition("-")[2].title()
            with connect_sync(url, approve=person, api_key=key) as remote:
                found = sorted(tool.name for tool in remote.tools)
                print(f"  {caller} sees: {', '.join(found)}")
                expect(found, names)
                before = len(person.said)
                call(remote, name, arguments)
                expect((len(person.said) > before, len(done)), (True, int(person.said[-1])))


def talk(remote: SyncRemote, visitor: Visitor, person: Person) -> None:
    """Let a model use a site's tools for a person, who is asked exactly once."""
    _title("A model with these tools, over the real SDK (what it says is scripted too)")
    asked = len(person.said)
    find_and_save(remote, print)
    expect(len(person.said) - asked, 1)
    said = visitor.read("favorites")
    print(f"  {_dim('her page says:')} {said}")
    wanted = "Your favorites: Cacio e Pepe." if person.said[-1] else "You have no favorites yet. Save a recipe below."
    expect(said, wanted)


def look(url: str) -> list[str]:
    """Find out what ``url`` speaks, say what was chosen and why, and return all that it speaks."""
    _title(f"What does {url} speak?")
    found = survey_url(url, None)
    for probe in found.probes:
        mark = apply_style("yes", "green", sys.stdout) if probe.accepted else _dim("...")
        path = probe.url.removeprefix(url)
        print(f"  {mark} {TITLES[probe.protocol]:<22} {escaped(path):<21} {probe.status}  {escaped(probe.meaning)}")
    if found.peer is None:
        raise UnexpectedError(f"{url} speaks nothing we know.")
    chosen = apply_style(TITLES[found.peer.protocol], "bold", sys.stdout)
    print(f"  {chosen} is chosen: it was found first, and the order of looking is {', '.join(TITLES)}.")
    return [found.peer.protocol, *(peer.protocol for peer in found.others)]


def show_tools(remote: SyncRemote) -> None:
    """List the tools of a server, with the consent each of them needs."""
    _title(f"The tools of {escaped(remote.catalog().title)}")
    print_table(COLUMNS, build_rows(remote.catalog()), sys.stdout)
    print()


def use_todo(remote: SyncRemote, database: Path, person: Person) -> None:
    """Read, write with consent, be refused, and be wrong."""
    _title("A call that only reads runs at once")
    expect(call(remote, "list_tasks"), Value([]))

    _title("A call that writes asks first")
    before = rows_of(database)
    made = call(remote, "create_task", {"title": "Water the plants", "due": "2027-03-01"})
    added = (1, "Water the plants", "open", "2027-03-01")
    read_back(database, [*before, added] if allowed(made, person) else before)

    _title("A call that is refused is not sent")
    before = rows_of(database)
    if not before:
        print("  There is no task to delete, since you did not let one be made.")
    else:
        gone = call(remote, "delete_task", {"task_id": 1})
        read_back(database, [] if allowed(gone, person) else before)

    _title("A wrong argument is named, before anybody is asked")
    asked, before = len(person.said), rows_of(database)
    wrong = call(remote, "create_task", {"title": "", "due": "2027-03-01"})
    expect(isinstance(wrong, Problem) and list(wrong.parameter_errors), ["title"])
    expect((len(person.said), rows_of(database)), (asked, before))


async def same_on_every_wire(url: str) -> None:
    """Call one tool over each protocol in turn; the answers are the same."""
    _title("The same tool on every wire")
    for name, title in TITLES.items():
        async with connect(url, protocol=name, agree=lambda _: True) as remote:
            result = await remote.call("add", {"a": 17, "b": 25})
            expect(result, Value(42))
            print(f"  {title:<27} add(17, 25) = {said(result)}")
    answer = await asyncio.to_thread(call_by_the_rfc, url)
    print(f"  {'the RFC, written by hand':<27} POST /call -> {json_text(answer)}")
    expect((answer["success"], answer["output"]["value"]), (True, 42))


async def ask_in_a_foreign_client(url: str, person: Person) -> None:
    """Use a wallet with the official MCP client: its user is asked because our server wants that, and a no counts."""
    _title("The official MCP client, unchanged: our server has it ask its user")
    async with Client(url, elicitation_callback=person.answer_form) as client:

        async def call_there(name: str, arguments: dict[str, Any], *, asks: bool) -> None:
            asked, before = len(person.said), dict(payments)
            print(f"  {apply_style(f'{name}({json_text(arguments)})', 'bold', sys.stdout)}")
            called = await client.call_tool(name, arguments)
            expect(len(person.said) - asked, int(asks))
            allowed = person.said[-1] if asks else True
            expect((called.is_error is not True, payments != before), (allowed, allowed))
            print(f"  -> {'done' if allowed else 'not called'}; {_dim('the wallet has:')} {json_text(payments)}")

        await call_there("pay", {"to": "Ada", "amount": 20}, asks=False)
        await call_there("pay", {"to": "Ada", "amount": 80}, asks=True)
        await call_there("delete_payment", {"number": 1}, asks=True)


def pay_within_bounds(url: str, person: Person) -> None:
    """Pay with an "always" that covers two payments of at most 50 to Ada; afterwards each is asked about again."""
    _title('An "always" within bounds: two more payments to Ada of at most 50, and then it is gone')
    session = Session()
    with connect_sync(url, approve=person.answer_within_bounds, session=session) as remote:
        for amount, asks in ((20, True), (50, False), (30, False), (10, True)):
            asked, paid = len(person.said), len(payments)
            call(remote, "pay", {"to": "Ada", "amount": amount})
            has_asked = len(person.said) > asked
            if person.has_bounded:  # at a terminal the bounds are the person's own
                expect(has_asked, asks)
            expect(len(payments) - paid, int(person.said[-1] if has_asked else True))
            covered = [describe_bounds(one.conditions, one.uses_left) for one in session.grants.list_grants()]
            print(f"  {_dim('goes without a question:')} {'; '.join(covered) or 'nothing'}")


def call_by_the_rfc(url: str) -> dict[str, Any]:
    """Return the answer to a call as the Open Tool Calling RFC writes it, with no part of toolwire in between."""
    body = {"request": {"tool_id": "Calculator.add@1.0.0", "call_id": "demo-1", "input": {"a": 17, "b": 25}}}
    request = Request(f"{url}/call", json.dumps(body).encode(), {"content-type": "application/json"})  # noqa: S310
    with urlopen(request, timeout=5) as response:  # noqa: S310 - a server of our own, on loopback
        answer: dict[str, Any] = json.load(response)
    return {name: answer[name] for name in ("call_id", "success", "output")}


def call(remote: SyncRemote, name: str, arguments: dict[str, Any] | None = None) -> Result:
    """Call a tool, and print the call and how it ended."""
    given = ", ".join(f"{key}={json_text(value)}" for key, value in (arguments or {}).items())
    print(f"  {apply_style(f'{name}({given})', 'bold', sys.stdout)}")
    result = remote.call(name, arguments)
    print(f"  -> {said(result)}")
    return result


def said(result: Result) -> str:
    """Return how a call ended, fit to show."""
    if isinstance(result, Problem):
        return f"{apply_style(result.kind, 'yellow', sys.stdout)}: {escaped(result.message)}"
    return "done" if result.value is None else apply_style(json_text(result.value), "green", sys.stdout)


def allowed(result: Result, person: Person) -> bool:
    """Return what the person said last; the call must have ended accordingly."""
    yes = person.said[-1]
    expect("value" if isinstance(result, Value) else result.kind, "value" if yes else "denied")
    return yes


def read_back(database: Path, expected: list[Any]) -> None:
    """Show what the database itself says, read without any tool."""
    found = rows_of(database)
    print(f"  {_dim('the database says:')} {json_text(found) if found else 'no tasks'}")
    expect(found, expected)


def rows_of(database: Path) -> list[Any]:
    """Return the rows of the table of tasks."""
    with closing(sqlite3.connect(database)) as db:
        return db.execute("SELECT id, title, status, due FROM tasks ORDER BY id").fetchall()


def expect(found: object, wanted: object) -> None:
    """Raise unless ``found`` is ``wanted``."""
    if found != wanted:
        raise UnexpectedError(f"This was not expected: {escaped(repr(found))}; it should be {escaped(repr(wanted))}.")


def _show_question(question: Question) -> None:
    for line in list_question(build_display_rows(question)):
        print(f"  {line}")


def _title(text: str) -> None:
    print(f"\n{apply_style(text, 'bold', sys.stdout)}")


def _dim(text: str) -> str:
    return apply_style(text, "dim", sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
