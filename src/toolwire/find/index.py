"""Index a list of tools by the words of their names, texts and arguments, and rank the tools by words.

Rules:
- Each word of a tool counts by the field that it is in, once for each field, and less in a long field (BM25F).
- Only the beginning of a field counts, so that no text buys rank by its length, and lengths are compared with fixed
  ones, so that no tool changes the rank of another.
- A schema that waits for its first use is not built: of ten thousand tools, few are called.
- Tools are in groups: a small server is one, and a large one has one for each subject.
"""
# FI-04, FI-05: the rules above.

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import islice
from math import log
from typing import Final, NamedTuple

from toolwire.core.catalog import Catalog, make_confusable_key
from toolwire.core.interpreter import pause_collection
from toolwire.core.model import Tool, get_stored_schemas

from .stemming import stem_word
from .words import SYNONYMS, WordSplitter


class _Field(NamedTuple):
    """A field of a tool: what one of its words counts, its usual number of words, and how much its length matters."""

    weight: float
    usual: int
    slope: float

    def weigh(self, words: int) -> float:
        """Return what each of this number of words counts, between 0 and 1."""
        weight = self.weight / (1 - self.slope + self.slope * words / self.usual)
        return weight / (_SATURATION + weight)


TEXT_CHARACTERS: Final = 300
"""How much of a description, and of the names and the descriptions of all arguments, counts."""
NAME_CHARACTERS: Final = 100
"""How much of the name of a tool or a server counts."""
_SATURATION: Final = 1.0
_SYNONYM_WEIGHT: Final = 0.3
_MIN_START_LENGTH: Final = 3
_START_WEIGHT: Final = 0.5
_MAX_WORDS: Final = 64
_MAX_STEPS: Final = 1_500
_MAX_CANDIDATES: Final = 200
_MAX_STARTS: Final = 20

_FIELDS: Final = (_Field(0.7, 20, 0.6), _Field(1.0, 12, 0.6), _Field(1.0, 2, 0.3), _Field(3.0, 3, 0.4))
_WEIGHTS: Final = [field.weigh(words) if words else 0.0 for field in _FIELDS for words in range(TEXT_CHARACTERS)]
"""What a word of each field counts, by the number of words in it."""
_ARGUMENTS, _TEXT, _SERVER, _NAME = range(0, len(_WEIGHTS), TEXT_CHARACTERS)
_BITS: Final = 11
_MASK: Final = (1 << _BITS) - 1
"""A posting is one whole number: that of the tool, and in its last bits the place of its weight in ``_WEIGHTS``."""


class Hit(NamedTuple):
    """A tool that was found: its name in the catalog, the tool, and its score."""

    name: str
    tool: Tool
    score: float


class FindIndex:
    """The words of a list of tools, by which ``rank`` finds them.

    Building it takes about 17 us of CPU time for each tool of a large document. It holds about 25 bytes for each word.
    """

    __slots__ = (
        "_confusable",
        "_groups",
        "_members",
        "_names",
        "_postings",
        "_sorted",
        "_tools",
        "has_many_servers",
        "tools",
    )

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self.tools: Mapping[str, Tool] = tools
        self._names: tuple[str, ...] = tuple(tools)
        self._tools: tuple[Tool, ...] = tuple(tools.values())
        postings: defaultdict[str, list[int]] = defaultdict(list)
        splitter = WordSplitter()
        split = cache(splitter.split)
        read = cache(lambda text: read_words(text, splitter.split))  # large documents repeat their texts
        with pause_collection():
            for number, (name, tool) in enumerate(tools.items()):
                full, original = name[:NAME_CHARACTERS], tool.original_name[:NAME_CHARACTERS]
                # A name often has underscores instead of the separators of its original: the words are the same then.
                if original and original.replace(".", "_").replace("/", "_").replace("-", "_") != full:
                    full = f"{full} {original}"
                first = number << _BITS
                words = read(_read_arguments(tool))
                found = dict.fromkeys(words, first + _ARGUMENTS + len(words))
                # A word counts by the most telling field that it is in, which comes last.
                words = read(tool.description[:TEXT_CHARACTERS])
                found.update(dict.fromkeys(words, first + _TEXT + len(words)))
                words = split(tool.toolkit[:NAME_CHARACTERS])
                found.update(dict.fromkeys(words, first + _SERVER + len(words)))
                words = dict.fromkeys(splitter.split_once(full))
                found.update(dict.fromkeys(words, first + _NAME + len(words)))
                for word, posting in found.items():
                    postings[word].append(posting)
        self._postings: dict[str, list[int]] = dict(postings)
        self.has_many_servers: bool = len({tool.toolkit for tool in self._tools}) > 1
        self._sorted: list[str] = []
        self._groups: Mapping[str, str] | None = None
        self._members: defaultdict[str, list[str]] | None = None
        self._confusable: Mapping[str, set[str]] | None = None

    def __len__(self) -> int:
        return len(self._names)

    @property
    def groups(self) -> Mapping[str, str]:
        """The group of each tool by its name."""
        if self._groups is None:
            self._groups = group_tools(self.tools)
        return self._groups

    @property
    def members(self) -> Mapping[str, list[str]]:
        """The names of the tools in each group."""
        if self._members is None:
            self._members = defaultdict(list)
            for name, group in self.groups.items():
                self._members[group].append(name)
        return self._members

    def is_imitated(self, tool: Tool) -> bool:
        """Return whether a tool of another server has a name that a reader could take for that of ``tool``."""
        # FI-05
        if not self.has_many_servers:
            return False
        known = self._confusable
        if known is None:
            found: dict[str, set[str]] = {}
            for one in self._tools:
                found.setdefault(make_confusable_key(one.name), set()).add(one.toolkit)
            known = self._confusable = found
        return len(known[make_confusable_key(tool.name)]) > 1

    def rank(self, words: str, most: int = 200) -> list[Hit]:
        """Return at most ``most`` tools that ``words`` describe, best first.

        A word also finds its synonyms, which count less. A word that no tool has finds words that begin with it.
        """
        scores: dict[int, float] = {}
        steps = 0
        # The rarest words come first. When there are too many tools to look at, the others only order the best so far.
        for postings, weight in sorted(self._find_postings(words), key=lambda one: len(one[0])):
            steps += len(postings)
            if steps > _MAX_STEPS and scores:
                if len(scores) > _MAX_CANDIDATES:
                    scores = _select_best(scores, _MAX_CANDIDATES)
                for number in scores:
                    first = bisect_left(postings, number << _BITS)
                    if first < len(postings) and postings[first] >> _BITS == number:
                        scores[number] += weight * _WEIGHTS[postings[first] & _MASK]
                continue
            for posting in postings:
                number = posting >> _BITS
                scores[number] = scores.get(number, 0.0) + weight * _WEIGHTS[posting & _MASK]
        scores = _select_best(scores, most)
        ranked = sorted(scores, key=scores.__getitem__, reverse=True)
        return [Hit(self._names[number], self._tools[number], scores[number]) for number in ranked]

    def _find_postings(self, words: str) -> Iterable[tuple[list[int], float]]:
        """Yield the tools of each of ``words``, with the weight of the word: the rarer, the more."""
        asked = dict.fromkeys(list(WordSplitter().split(words[: 10 * TEXT_CHARACTERS]))[:_MAX_WORDS], 1.0)
        for word in tuple(asked):
            for other in SYNONYMS.get(word, ()):
                asked.setdefault(other, _SYNONYM_WEIGHT)
        for word, weight in asked.items():
            postings = self._postings.get(word)
            if postings is None and weight == 1.0 and len(word) >= _MIN_START_LENGTH:
                postings = self._merge_starts(word)
                asked[word] = _START_WEIGHT
            if postings:
                yield postings, asked[word] * log(1 + (len(self._names) - len(postings) + 0.5) / (len(postings) + 0.5))

    def _merge_starts(self, start: str) -> list[int]:
        if not self._sorted:
            self._sorted = sorted(self._postings)
        first = bisect_left(self._sorted, start)
        merged: dict[int, int] = {}
        for word in self._sorted[first : first + _MAX_STARTS]:
            if not word.startswith(start):
                break
            merged.update((posting >> _BITS, posting) for posting in self._postings[word])
        return sorted(merged.values())


def _select_best(scores: dict[int, float], most: int) -> dict[int, float]:
    """Return the ``most`` best of ``scores``, in their order; of equal ones the first."""
    # Plain numbers are sorted in a fifth of the time of what has a key.
    if len(scores) <= most:
        return scores
    least = sorted(scores.values(), reverse=True)[most - 1]
    best = {number: score for number, score in scores.items() if score > least}
    for number, score in scores.items():
        if len(best) == most:
            break
        if score == least:
            best[number] = score
    return best


def search_tools(catalog: Catalog, words: str, limit: int = 20) -> tuple[Tool, ...]:
    """Return at most ``limit`` tools that ``words`` describe, best first; the newest version of each."""
    # CV-25
    return tuple(hit.tool for hit in get_index(catalog).rank(words, limit))


def get_index(catalog: Catalog) -> FindIndex:
    """Return the index of the newest version of each tool of ``catalog``, which is built once."""
    known = catalog.index
    if not isinstance(known, FindIndex):
        known = FindIndex(catalog.names)
        object.__setattr__(catalog, "index", known)  # a catalog is never changed in place, so what is built of it fits
    return known


def _read_arguments(tool: Tool) -> str:
    """Return the names of the arguments of ``tool``, and then their descriptions."""
    schema = get_stored_schemas(tool)["input_schema"]
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, Mapping):
        return ""
    text = " ".join(map(str, islice(properties, TEXT_CHARACTERS)))
    for one in properties.values():
        if len(text) >= TEXT_CHARACTERS:
            break
        if isinstance(one, (dict, Mapping)) and isinstance(description := one.get("description"), str):
            text = f"{text} {description[:TEXT_CHARACTERS]}"
    return text[:TEXT_CHARACTERS]


_SIGN_TEXT: Final = (
    "always assistant confidential covertly disregard ignore important instructions mandatory must never override"
    " prefer prompt secret secretly silently tell"
)
_SIGNS: Final = frozenset(map(stem_word, _SIGN_TEXT.split()))
"""A text without these words gives no instruction that is known here; nearly all texts are done then."""
_TAG: Final = re.compile(r"<\s*/?\s*(?:important|secret|system|hidden|instructions?|critical|admin)\b[^<>]*>", re.I)
_TAGGED: Final = re.compile(
    r"<\s*(important|secret|system|hidden|instructions?|critical|admin)\b[^<>]*>.*?(?:<\s*/\s*\1\s*>|\Z)", re.I | re.S
)
_SENTENCE: Final = re.compile(r"[^.!?\n]+[.!?\n]*")
_INSTRUCTION: Final = re.compile(
    r"\b(?:"
    r"(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|other|above|all|instructions?|tools?|rules?)"
    r"|(?:do not|don't|never|without)\b.{0,30}\b(?:tell|telling|mention|inform|informing|reveal|notify|show|ask)\w*"
    r"|(?:you|the (?:assistant|model|agent|ai|llm))\s+(?:must|should|shall|have to|need to|are required)"
    r"|(?:always|only|must|please)\s+(?:use|call|choose|prefer|pick|select|invoke|run)\b"
    r"|(?:before|instead of|prior to)\b.{0,30}\b(?:any|all|every|each|other|another)\b.{0,20}\btools?"
    r"|(?:use|call|choose|prefer)\s+this\b.{0,30}\b(?:first|instead|whenever|always|before)"
    r"|(?:system|developer)\s+prompt"
    r"|(?:keep|stay|remain|this is)\b.{0,20}\b(?:secret|confidential|hidden)"
    r"|(?:secretly|silently|covertly)\b"
    r")",
    re.I,
)


def read_words(text: str, split: Callable[[str], dict[str, None]]) -> dict[str, None]:
    """Return the words of ``text`` by ``split``, without those of instructions to the model and secrecy markers."""
    # FI-05
    words = split(text)
    if _SIGNS.isdisjoint(words):
        return words
    if "<" not in text and _INSTRUCTION.search(text) is None:
        return words
    plain = _TAG.sub(" ", _TAGGED.sub(" ", text))
    return split(" ".join(one for one in _SENTENCE.findall(plain) if _INSTRUCTION.search(one) is None))


MAX_SERVER_TOOLS: Final = 40
"""A server of more tools is told apart by the beginnings of their names, which are its tags or paths."""
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W_]+")


def group_tools(tools: Mapping[str, Tool]) -> dict[str, str]:
    """Return the group of each tool by its name: its toolkit, or its toolkit and the subject of its name."""
    # FI-02
    sizes = Counter(tool.toolkit for tool in tools.values())
    is_alone = len(sizes) == 1
    groups: dict[str, str] = {}
    for name, tool in tools.items():
        if sizes[tool.toolkit] <= MAX_SERVER_TOOLS:
            groups[name] = tool.toolkit
        else:
            subject = _find_subject(tool.name.removeprefix(f"{tool.toolkit}_"))  # as connections in one list have
            groups[name] = subject if is_alone else f"{tool.toolkit} {subject}"
    return groups


def _find_subject(name: str) -> str:
    """Return the first word of ``name`` that is not a verb, such as ``customers`` of ``GetCustomersCustomer``."""
    words = [word.lower() for word in _PARTS.findall(name)]
    return next((word for word in words if stem_word(word) not in SYNONYMS), words[0] if words else name)
