"""Secrets are taken out of what is written down: by type, by name, and by their very text."""

from __future__ import annotations

import base64
import io
import json
import logging
import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.model import Context, Kind, Problem, Secret
from toolwire.telemetry.logs import JsonLines, log_json
from toolwire.telemetry.redaction import hide_secrets, redact_data, redact_text, scrub_problem, scrub_record, scrub_text

CANARY = "canary-5f3a91"
CONTEXT = Context(tokens={"google": Secret(CANARY)}, secrets={"KEY": Secret("other-" + CANARY), "PIN": Secret("1")})


@pytest.mark.requirement("D-26", "A-45")
def test_secrets_of_a_call_are_removed_from_text_only_while_it_runs() -> None:
    with hide_secrets(CONTEXT):
        assert scrub_text(f"a {CANARY}, b other-{CANARY}, 1") == "a ***, b ***, 1"
    assert scrub_text(CANARY) == CANARY


@pytest.mark.requirement("D-26")
@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {CANARY}",
        f"authorization: {CANARY}",
        f"GET /?token={CANARY}&x=1",
        f"api_key={CANARY}",
        f"X-API-Key: {CANARY}",
        f'{{"client_secret": "{CANARY}"}}',
        f"password = {CANARY}",
        f"Cookie: {CANARY}",
        f"refresh_token={CANARY};",
        f"sent bearer {CANARY} there",
        f"client_assertion={CANARY}",
    ],
)
def test_value_after_a_secret_name_is_redacted(text: str) -> None:
    assert CANARY not in redact_text(text)
    assert "***" in redact_text(text)


@pytest.mark.parametrize("text", ["status code: 200", "the token was refused", "a secret tool", "tokens", "éàü"])
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.requirement("D-26", "OB-6")
def test_data_is_redacted_by_type_by_name_and_by_text() -> None:
    data = {
        "nested": [{"password": CANARY, "Set-Cookie": CANARY, "code": CANARY}, Secret(CANARY), {"deep": CONTEXT}],
        "access_token": CANARY,
        "status_code": 200,
        "count": None,
        "text": f"token={CANARY}",
        CANARY: 1,
    }
    with hide_secrets(CONTEXT):
        reply = redact_data("fields", data)
    assert CANARY not in json.dumps(reply)
    assert reply["status_code"] == 200


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_redaction_accepts_any_data(data: Any) -> None:
    json.dumps(redact_data("fields", data)).encode()


def record(text: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("toolwire", logging.ERROR, __file__, 1, text, args, info)


@pytest.mark.requirement("D-26", "R20")
def test_a_record_of_any_formatter_loses_the_secrets_of_the_call() -> None:
    raised = ValueError(f"the provider says {CANARY} is wrong")
    with hide_secrets(CONTEXT):
        made = record("failed with %s", CANARY, error=raised)
        scrub_record(made)
        harmless = record("failed with %s", "nothing", error=ValueError("plain"))
        scrub_record(harmless)
    text = logging.Formatter().format(made)
    assert text.startswith("failed with ***")
    assert "ValueError: the provider says *** is wrong" in text
    assert (CANARY in repr(vars(made)), made.exc_info) == (False, None)
    assert (harmless.args, harmless.exc_info is not None) == (("nothing",), True)


@pytest.mark.requirement("D-26")
def test_secrets_of_a_call_are_redacted_in_its_threads() -> None:
    import contextvars

    found: list[str] = []
    with hide_secrets(CONTEXT):
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(lambda: found.append(scrub_text(CANARY)),))
        thread.start()
        thread.join(10)
    assert found == ["***"]


@pytest.mark.requirement("D-26", "R20")
def test_a_problem_loses_the_secrets_of_the_call() -> None:
    problem = Problem(
        kind=Kind.TOOL_FAILED,
        message=f"m {CANARY}",
        developer_message=f"d {CANARY}",
        additional_prompt_content=f"p {CANARY}",
        parameter_errors={"a": CANARY},
        details={"a": [{"b": CANARY}], "n": 1},
    )
    with hide_secrets(CONTEXT):
        clean = scrub_problem(problem)
    assert CANARY not in repr(clean)
    assert (clean.message, clean.details["n"]) == ("m ***", 1)
    assert scrub_problem(problem) is problem


def test_process_log_can_be_json_with_the_exception() -> None:
    names = ("toolwire", "uvicorn.error", "uvicorn.access")
    before = [(logging.getLogger(name), [*logging.getLogger(name).handlers]) for name in names]
    states = [(logger.level, logger.propagate) for logger, _ in before]
    stream = io.StringIO()
    try:
        log_json(stream)
        try:
            raise LookupError("inside")
        except LookupError:
            logging.getLogger("toolwire.server").exception("it failed: token=%s", CANARY)
    finally:
        for (logger, handlers), (level, propagate) in zip(before, states, strict=True):
            logger.handlers, logger.level, logger.propagate = handlers, level, propagate
    line = json.loads(stream.getvalue())
    assert (line["level"], line["event"]) == ("error", "it failed: token=***")
    assert line["exception"].rstrip().endswith("LookupError: inside")


def test_lone_surrogate_does_not_break_the_log() -> None:
    line = json.loads(JsonLines().format(record("\ud800 and %s", "\udfff")))
    assert line["event"] == "? and ?"


def test_log_records_are_redacted_once_with_another_record_factory() -> None:
    made: list[logging.LogRecord] = []
    before = logging.getLogRecordFactory()

    def make(*args: Any, **more: Any) -> logging.LogRecord:
        made.append(before(*args, **more))
        return made[-1]

    logging.setLogRecordFactory(make)
    try:
        for _ in range(3):
            with hide_secrets(CONTEXT):
                logging.getLogger("of.an.application").warning("sent %s", CANARY)
        assert [record.getMessage() for record in made] == ["sent ***"] * 3
        factory = logging.getLogRecordFactory()
        with hide_secrets(CONTEXT):
            assert logging.getLogRecordFactory() is factory
    finally:
        logging.setLogRecordFactory(before)


def _encode_pair(key: str) -> str:
    """Return ``user:key`` in base64, as HTTP Basic sends it."""
    return base64.b64encode(f"user:{key}".encode()).decode()


ENCODINGS: dict[str, Callable[[str], str]] = {
    "hex": lambda key: key.encode().hex(),
    "hex in capitals": lambda key: key.encode().hex().upper(),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 without its padding": lambda key: base64.b64encode(key.encode()).decode().rstrip("="),
    "URL-safe base64": lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
    "URL-safe base64 without its padding": lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "Basic": _encode_pair,
    "one byte before": lambda key: base64.b64encode(f":{key}".encode()).decode(),
    "between two texts": lambda key: base64.b64encode(f"ab{key}, and more".encode()).decode(),
    "one text after": lambda key: base64.urlsafe_b64encode(f"{key}~".encode()).decode(),
    "URL with small letters": lambda key: quote(key, safe="").lower() if key == key.lower() else quote(key, safe=""),
}


@pytest.mark.requirement("AT-44", "AT-11", "D-26")
@pytest.mark.parametrize("key", [CANARY, "canary-5f3a9", "canary-5f3a", "canary?>~/+ &é", "canary\xff\xfe~~??>>"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_secret_in_another_notation_is_removed_from_log_and_traceback(encoding: str, key: str) -> None:
    written = ENCODINGS[encoding](key)
    stream = io.StringIO()
    log, handler = logging.getLogger("of.an.application"), logging.StreamHandler(stream)
    log.addHandler(handler)
    try:
        with hide_secrets(Context(secrets={"KEY": Secret(key)})):
            try:
                raise LookupError(f"the provider got {written} here")
            except LookupError:
                log.exception("sent <%s>", written)
    finally:
        log.removeHandler(handler)
    text = stream.getvalue()
    assert written not in text
    assert "***" in text.partition("Traceback")[0]
    assert "***" in text.partition("LookupError: ")[2]
    # What is left of it is less than one group of base64, or the texts around the secret.
    rest = re.search(r"sent <(.*)>", text)
    assert rest is not None
    assert len(rest[1].replace("***", "")) <= (20 if encoding in ("Basic", "between two texts") else 4)


@pytest.mark.requirement("TE-03", "D-26")
@pytest.mark.parametrize("length", range(4, 12))
def test_short_secret_is_removed_too(length: int) -> None:
    key = "Zq7-Xw9_Yk3"[:length]
    with hide_secrets(Context(tokens={"site": Secret(key)})):
        assert scrub_text(f"it is {key}.") == "it is ***."
        made = record("sent %s", key)
        scrub_record(made)
    assert made.getMessage() == "sent ***"


@pytest.mark.requirement("TE-03", "D-26")
def test_secret_of_three_characters_stays_because_it_is_part_of_many_words() -> None:
    with hide_secrets(Context(tokens={"site": Secret("the")})):
        assert scrub_text("there") == "there"


@pytest.mark.requirement("TE-03", "D-26")
def test_no_end_of_a_secret_stays_where_it_begins_with_another_one() -> None:
    keys = {"a": Secret("canary-5f3a"), "b": Secret("canary-5f3a91-tail"), "c": Secret("canary-5f3a91")}
    with hide_secrets(Context(secrets=keys)):
        assert scrub_text("canary-5f3a91-tail canary-5f3a91 canary-5f3a") == "*** *** ***"


@pytest.mark.requirement("TE-03", "D-26")
def test_traceback_in_the_json_log_is_redacted() -> None:
    def line_of(error: ValueError, key: str = "") -> dict[str, Any]:
        try:
            raise error
        except ValueError as raised:
            made = record("it failed", error=raised)
        with hide_secrets(Context(secrets={"KEY": Secret(key or "nothing-to-hide")})):
            return dict(json.loads(JsonLines().format(made)))

    by_name = line_of(ValueError(f"GET https://user:{CANARY}@site.example/?token={CANARY} with Bearer {CANARY}"))
    assert CANARY not in json.dumps(by_name)
    assert "ValueError: GET " in by_name["exception"]
    by_value = line_of(ValueError(f"said {CANARY}"), CANARY)
    assert by_value["exception"].rstrip().endswith("ValueError: said ***")
    by_text = record("it failed")
    by_text.exc_text = f"Traceback: password={CANARY}"
    assert CANARY not in JsonLines().format(by_text)
