"""List the names in ``src/toolwire`` that break the rules of CONTRIBUTING.md.

A function is named by a verb and its object: a name that begins with a participle or a past tense is a fault
(``shown``, ``_refused``, ``sent_to``, ``closing``), unless it is in ``ALLOWED``. The words of ``OLD_WORDS`` are no part
of the name of a module, a class or a public function: they say nothing to a reader who does not know this project.

Run it to see the faults, one a line; it ends with 1 if there are any.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "toolwire"

# Participles and past tenses that do not end in "ed" or "ing".
_IRREGULAR = frozenset(
    [
        "became",
        "began",
        "begun",
        "bent",
        "bought",
        "bound",
        "brought",
        "broken",
        "built",
        "came",
        "caught",
        "chosen",
        "dealt",
        "done",
        "drawn",
        "drew",
        "driven",
        "eaten",
        "fallen",
        "fed",
        "felt",
        "fled",
        "forgotten",
        "found",
        "gave",
        "given",
        "gone",
        "got",
        "gotten",
        "grown",
        "had",
        "heard",
        "held",
        "hidden",
        "kept",
        "knew",
        "known",
        "laid",
        "led",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "ran",
        "ridden",
        "risen",
        "said",
        "sat",
        "saw",
        "seen",
        "sent",
        "shaken",
        "shown",
        "shut",
        "slept",
        "sold",
        "spent",
        "spoke",
        "spoken",
        "spun",
        "stolen",
        "stood",
        "stuck",
        "stung",
        "sung",
        "sunk",
        "swept",
        "sworn",
        "swung",
        "taken",
        "taught",
        "thought",
        "threw",
        "thrown",
        "told",
        "took",
        "torn",
        "undone",
        "understood",
        "went",
        "withdrawn",
        "woken",
        "won",
        "worn",
        "wound",
        "written",
        "wrote",
    ]
)
# Words that end in "ed" or "ing" and are neither.
_NO_PARTICIPLES = frozenset(
    [
        "bring",
        "embed",
        "exceed",
        "feed",
        "king",
        "need",
        "ping",
        "proceed",
        "red",
        "ring",
        "seed",
        "shed",
        "sing",
        "sling",
        "speed",
        "spring",
        "sting",
        "string",
        "swing",
        "thing",
        "wing",
    ]
)
# Participles that are the standard word for what they name, most of them properties, flags and context managers.
ALLOWED = frozenset(["missing", "required_parameters", "warning"])  # dict calls `__missing__`; a level of a log
# Words of this project's past. A new name says what it means instead.
OLD_WORDS = frozenset(
    [
        "aside",
        "begun",
        "beheld",
        "desk",
        "discreet",
        "door",
        "ear",
        "gate",
        "hand",
        "heard",
        "keeper",
        "kept",
        "late",
        "looking",
        "nobody",
        "noticing",
        "offered",
        "person",
        "said",
        "seeking",
        "settle",
        "settled",
        "somebody",
        "standing",
        "stolen",
        "tally",
        "telling",
        "told",
        "undecided",
        "unsaid",
        "visit",
        "whoever",
        "wish",
    ]
)
# Names of this project's past, each with the one that took its place.
OLD_NAMES = {
    "AsksItself": "HandlesConsent",
    "Called": "ToolCallEntry",
    "ConfirmationWords": "ConfirmationTokens",
    "HearAnswer": "AnswerHandler",
    "HeldCalls": "UpstreamQuestions",
    "KeepsResources": "StoresResources",
    "KeptItems": "StoredItems",
    "KeptLevel": "StoredLevel",
    "KeptReceipt": "StoredReceipt",
    "LedgerTally": "LedgerUsage",
    "McpSessions": "McpSessionManager",
    "NOTHING_OFFERED": "NO_FEATURES",
    "Offered": "ServerFeatures",
    "OfferedTool": "ToolRow",
    "PROVED_BEFORE": "ALREADY_VERIFIED",
    "QuestionWaits": "InboxWaiters",
    "Said": "MessageEntry",
    "SessionOffer": "SessionStart",
    "SignedIn": "SessionUser",
    "SignedInUser": "BrowserUser",
    "SqlWords": "SqlDialect",
    "StateSearch": "PollingEngine",
    "TellQuestion": "QuestionHandler",
    "Unanswered": "NoUserInput",
    "Undecided": "DeferredVerdict",
    "WaitingCall": "ResumableCall",
    "WaitingToolbox": "ReconnectingToolbox",
    "Work": "BlockingTask",
    "ask_wait_s": "inbox_wait_s",
    "asks_itself": "handles_consent",
    "by_account": "has_account",
    "by_key": "has_key",
    "came": "what came, such as response",
    "cut_cycles": "break_cycles",
    "find_form_sender": "find_form_origin",
    "find_self_asking": "find_consent_handling",
    "form_sender": "csrf",
    "goes_on": "survives_disconnect or is_still_authorized",
    "hear": "on_piece or read_piece",
    "heard": "what was read, such as events",
    "held": "used or pending",
    "held_calls": "upstream_questions",
    "holds_calls": "can_wait_for_answers",
    "kept": "what is stored, such as preference_store",
    "kept_items": "stored_items",
    "look": "poll or read_topics",
    "look_s": "poll_interval_s",
    "mcp_sessions": "session_manager",
    "offered": "features",
    "pending_grants": "grant_polling",
    "question_waits": "inbox_waiters",
    "refuses_unasked": "requires_confirmation",
    "said": "what it is, such as description",
    "settle": "finish",
    "takes_work": "can_offload",
    "tally": "usage",
    "told": "what it is, such as notice",
    "waiting_call": "resumable_call",
    "waiting_question": "inbox_question",
    "waiting_toolbox": "reconnecting_toolbox",
}

# How constants for a maximum or a minimum began once.
OLD_BEGINNINGS = {"MOST": "MAX", "LONGEST": "MAX", "DEEPEST": "MAX", "LARGEST": "MAX", "SHORTEST": "MIN"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One name that breaks a rule, and where it is defined."""

    place: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.name}: {self.why}"


def is_participle(word: str) -> bool:
    """Return whether ``word`` is a participle or a past tense, as far as its letters tell."""
    return word not in _NO_PARTICIPLES and (word in _IRREGULAR or word.endswith(("ed", "ing")))


def find_faults(source: Path = SOURCE) -> Iterator[Fault]:
    """Yield each name below ``source`` that breaks a rule, in the order of the files."""
    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(source).as_posix()
        if old := _old_word(path.stem):
            yield Fault(place, path.stem, f'"{old}" is not a word of the glossary')
        elif path.stem in OLD_NAMES:
            yield Fault(place, path.stem, f"it is {OLD_NAMES[path.stem]} now")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case (
                    ast.FunctionDef(name=name)
                    | ast.AsyncFunctionDef(name=name)
                    | ast.ClassDef(name=name)
                    | ast.arg(arg=name)
                    | ast.Name(id=name, ctx=ast.Store())
                ) if new := _find_new_name(name):
                    yield Fault(f"{place}:{node.lineno}", name, f"it is {new} now")
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    if is_participle(name.strip("_").split("_")[0]) and name.strip("_") not in ALLOWED:
                        yield Fault(f"{place}:{node.lineno}", name, "a function is named by a verb and its object")
                    elif not name.startswith("_") and (old := _old_word(name)):
                        yield Fault(f"{place}:{node.lineno}", name, f'"{old}" is not a word of the glossary')
                case ast.ClassDef(name=name) if old := _old_word(_split_words(name)):
                    yield Fault(f"{place}:{node.lineno}", name, f'"{old}" is not a word of the glossary')
                case _:
                    pass


def _find_new_name(name: str) -> str:
    first, _, rest = name.strip("_").partition("_")
    return OLD_NAMES.get(name) or (f"{OLD_BEGINNINGS[first]}_{rest}" if first in OLD_BEGINNINGS else "")


def _split_words(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _old_word(name: str) -> str:
    return next((word for word in name.split("_") if word in OLD_WORDS), "")


if __name__ == "__main__":
    faults = list(find_faults())
    for fault in faults:
        sys.stdout.write(f"{fault}\n")
    sys.stdout.write(f"{len(faults)} names to change\n")
    sys.exit(1 if faults else 0)
