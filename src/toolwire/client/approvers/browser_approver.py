"""Ask the user on a page in the browser. A small loopback server runs while the question waits.

Rules:
- The server responds only at its own address, and accepts an answer only with its page's token.
- On Linux, it responds only to programs of the same user, because other users can read the URL on a command line.
- To allow a destructive call, the user must type its name and ``yes``.
"""
# D-19: another site or program must not answer for the user.

from __future__ import annotations

import json
import os
import secrets
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio.to_thread

from toolwire.consent.binding import DECISION_VALID_S
from toolwire.consent.bounds_fields import ALWAYS, read_bounds
from toolwire.consent.display import confirmation_text, find_unshown, needs_typed_confirmation
from toolwire.consent.grant import GRANT_LIFETIME, describe_bounds
from toolwire.consent.input_page import build_input_page, read_form
from toolwire.consent.policy import explain_unkept
from toolwire.consent.question_page import PAGE_HEADERS, build_final_page, build_question_page
from toolwire.core.check import Answer, Question
from toolwire.core.errors import DefinitionError
from toolwire.core.grant_bounds import list_conditions
from toolwire.core.model import Approval, Json
from toolwire.core.user_input import CANCELLED, DECLINED, InputAction, InputRequest, InputResponse

_MAX_BYTES = 4 << 20
_LEVELS = {"per-call": Approval.PER_CALL, "deny": Approval.DENY}
_TIMEOUT_S = 10.0
_MAX_FIELDS = 5_000
"""The maximum for a form of 20 fields with 200 choices each."""


class QuestionServer:
    """One question and its page. ``answer`` is None until the user answers."""

    def __init__(self, question: Question) -> None:
        self.question = question
        # 192 random bits: a program that does not know the address cannot guess it.
        self.path: str = f"/{secrets.token_urlsafe(24)}"
        self.token: str = secrets.token_urlsafe(24)
        self.answer: Answer | None = None
        self._entered: dict[str, str] = {}
        self.port = 0
        self.done: threading.Event = threading.Event()

    def submit(self, form: dict[str, list[str]]) -> str:
        """Store the answer in ``form``. Return what is wrong with it, or ``""``."""
        given = {name: values[0] for name, values in form.items()}
        # D-27: in constant time, and as bytes, because compare_digest() refuses a text that is not ASCII.
        if not compare_digest(given.get("token", "").encode(), self.token.encode()):
            return "This answer was not sent from this page. Open the page again."
        level = _LEVELS.get(given.get("later", "")) if self.question.can_keep_level else None
        if given.get("answer") != "allow":
            # A model reads the reason, so it is bounded.
            reason = given.get("reason", "").strip()[:500]
            return self._end(Answer(allowed=False, reason=reason, channel="page", keep_level=level))
        self._entered = given
        try:
            return self._end(self._read_permission(given, level))
        except DefinitionError as error:
            return str(error)

    def _read_permission(self, given: dict[str, str], level: Approval | None) -> Answer:
        """Return the answer of a user who allows the call.

        Raises:
            DefinitionError: an entry cannot be read.
        """
        wanted = confirmation_text(self.question)
        if needs_typed_confirmation(self.question) and given.get("confirm", "").strip() != wanted:
            raise DefinitionError(f"To allow this call, type: {wanted}")
        try:
            arguments = json.loads(given.get("arguments", "null"))
        except (ValueError, RecursionError):
            raise DefinitionError("The arguments are not JSON.") from None
        if arguments is not None and not isinstance(arguments, dict):
            raise DefinitionError("The arguments are not a JSON object.")
        given_before = self.question.call.arguments
        if arguments is not None:
            # The page does not show secrets and the bytes of files, so they are not in the form.
            arguments |= {name: given_before[name] for name in find_unshown(self.question)}
        changed = arguments if arguments != given_before else None
        bounds = read_bounds(self.question, given, datetime.now().astimezone())
        always = bounds is not None or given.get(ALWAYS) == "yes"
        if always and (fault := explain_unkept(bounds, always_allowed=self.question.always_allowed)):  # QF-03
            raise DefinitionError(fault)
        return Answer(allowed=True, always=always, arguments=changed, channel="page", keep_level=level, bounds=bounds)

    def build_page(self, note: str = "") -> str:
        """Return the page. ``note`` says what was wrong with the previous answer."""
        return build_question_page(self.question, self.token, note, self._entered)

    def build_outcome(self) -> str:
        """Return the page to show after the answer."""
        return _build_outcome_page(self.answer)

    def _end(self, answer: Answer) -> str:
        if self.answer is None:  # a page that is open twice can be answered twice
            self.answer = answer
        return ""


class InputServer:
    """One question of a server to the user and its page. ``response`` is None until the user answers."""

    # MC-09

    def __init__(self, asked: InputRequest) -> None:
        self.asked: InputRequest = asked
        self.entered: dict[str, Json] = {}
        self.path: str = f"/{secrets.token_urlsafe(24)}"
        self.token: str = secrets.token_urlsafe(24)
        self.response: InputResponse | None = None
        self.port = 0
        self.done: threading.Event = threading.Event()

    def submit(self, form: dict[str, list[str]]) -> str:
        """Store the answer in ``form``. Return what is wrong with it, or ``""``."""
        if not compare_digest(form.get("token", [""])[0].encode(), self.token.encode()):
            return "This answer was not sent from this page. Open the page again."
        action = form.get("answer", ["decline"])[0]
        if action != "accept":
            return self._end(CANCELLED if action == "cancel" else DECLINED)
        self.entered = read_form(self.asked, form)
        faults = self.asked.find_faults(self.entered)
        self.asked = replace(self.asked, faults=faults)
        if faults:
            return "Some values are not valid yet."
        return self._end(InputResponse(InputAction.ACCEPT, self.entered))

    def build_page(self, _note: str = "") -> str:
        """Return the page. It shows what was wrong with the previous answer."""
        return build_input_page(self.asked, self.token, self.entered)

    def build_outcome(self) -> str:
        """Return the page to show after the answer."""
        if self.response is not None and self.response.action is InputAction.ACCEPT:
            return build_final_page("Sent.", "The call continues with your input.")
        return build_final_page("Nothing was sent.", "The server is told that you did not answer.")

    def _end(self, response: InputResponse) -> str:
        if self.response is None:
            self.response = response
        return ""


def page_approver(
    open_url: Callable[[str], object] = webbrowser.open, *, within_s: float = DECISION_VALID_S
) -> Callable[[Question], Answer]:
    """Return an approver for blocking connections that asks on a page. ``open_url`` is called with the page's URL.

    A question that is not answered within ``within_s`` seconds is denied with the reason "timeout".
    """
    # XL-049: without the user's answer, the call is not made.

    def approve(question: Question) -> Answer:
        question_server = QuestionServer(question)
        _serve_page(question_server, open_url, within_s)
        return question_server.answer or Answer(allowed=False, reason="timeout", channel="page")

    return approve


def page_input_provider(
    open_url: Callable[[str], object] = webbrowser.open, *, within_s: float = DECISION_VALID_S
) -> Callable[[InputRequest], InputResponse]:
    """Return a ``provide_input`` for blocking connections that asks on a page. ``open_url`` gets the page's URL.

    A question that is not answered within ``within_s`` seconds is cancelled.
    """
    # MC-09

    def provide(asked: InputRequest) -> InputResponse:
        input_server = InputServer(asked)
        _serve_page(input_server, open_url, within_s)
        return input_server.response or CANCELLED

    return provide


def apage_input_provider(
    open_url: Callable[[str], object] = webbrowser.open, *, within_s: float = DECISION_VALID_S
) -> Callable[[InputRequest], Any]:
    """Do the same as ``page_input_provider``, for asynchronous connections."""
    blocking = page_input_provider(open_url, within_s=within_s)

    async def provide(asked: InputRequest) -> InputResponse:
        return await anyio.to_thread.run_sync(blocking, asked, abandon_on_cancel=True)

    return provide


def _serve_page(page: QuestionServer | InputServer, open_url: Callable[[str], object], within_s: float) -> None:
    """Serve ``page`` until it is answered, at most ``within_s`` seconds."""
    # Only this machine can reach it, at a port that no other program could know in advance.
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(page))
    # A browser can keep a connection open. That must not keep this program running.
    server.daemon_threads = True
    page.port = server.server_port
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    try:
        open_url(f"http://127.0.0.1:{server.server_port}{page.path}")
        page.done.wait(within_s)
    finally:
        server.shutdown()
        server.server_close()
        serving.join(_TIMEOUT_S)


def _handler(question_server: QuestionServer | InputServer) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - a class that knows its question_server, in one piece
    class QuestionHandler(BaseHTTPRequestHandler):
        """Handles the requests to one question server."""

        timeout = _TIMEOUT_S

        def do_GET(self) -> None:
            if self._is_ours():
                self._send(200, question_server.build_page())

        def do_POST(self) -> None:
            size = self.headers.get("Content-Length", "")
            if not self._is_ours():
                return
            if not (size.isascii() and size.isdigit() and len(size) < 9 and int(size) <= _MAX_BYTES):
                self._send(413, build_final_page("The answer is too long."))
                return
            text = self.rfile.read(int(size)).decode("utf-8", "replace")
            try:
                form = parse_qs(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
            except ValueError:
                form = {}
            fault = question_server.submit(form)
            if fault:
                self._send(400, question_server.build_page(fault))
                return
            self._send(200, question_server.build_outcome())
            question_server.done.set()

        def _is_ours(self) -> bool:
            """Return whether the page itself, or the user who opened it, sent this request. Otherwise refuse it."""
            own = f"127.0.0.1:{question_server.port}"
            # Another site's page can post a form to a loopback address, but its Origin shows that.
            elsewhere = self.headers.get("Origin") not in (None, f"http://{own}")
            elsewhere |= self.command == "POST" and self.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin"
            # A different Host is another site's name that resolves to this machine (DNS rebinding). A browser without
            # Sec-Fetch-Site is judged by its Origin and by the token.
            if self.headers.get("Host") != own or elsewhere:
                self._send(403, build_final_page("This page accepts requests only at its own address."))
                return False
            if is_other_user(self.client_address[1], question_server.port):
                self._send(403, build_final_page("This page answers only the user who was asked."))
                return False
            if not compare_digest(self.path.encode(), question_server.path.encode()):
                self._send(404, build_final_page("This page does not exist."))
                return False
            return True

        def _send(self, status: int, text: str) -> None:
            body = text.encode("utf-8", "replace")
            self.send_response(status)
            for name, value in PAGE_HEADERS:
                self.send_header(name.decode(), value.decode())
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            """Log nothing: the path is a secret."""

    return QuestionHandler


def _build_outcome_page(answer: Answer | None) -> str:
    if answer is None or not answer.allowed:
        return build_final_page(
            "Denied. Nothing was sent.", "The program is told of your decision and continues without the call."
        )
    once = "The call is being sent, as shown. The program that asked receives the result."
    how_long = f" For {GRANT_LIFETIME}, later calls of this tool run without a question."
    later = f"{how_long} To revoke this: toolwire approvals revoke."
    if answer.bounds is not None:
        covered = describe_bounds(list_conditions(answer.bounds), answer.bounds.uses)
        covered += f", and {len(answer.bounds.tools)} more tools" if answer.bounds.tools else ""
        later = f" Later calls that run without a question: {covered}. To revoke this: toolwire approvals revoke."
    return build_final_page("Allowed.", once + (later if answer.always else ""))


# The page is at 127.0.0.1, so the table of IPv4 is enough.
_TABLE = Path("/proc/net/tcp")
# Root can act as every user anyway.
_ROOT = 0
_LISTENS = "0A"
# The table lists a closed connection with user 0 and without a socket. It must not be mistaken for root's.
_NO_SOCKET = "0"


def is_other_user(peer_port: int, own_port: int, table: Path = _TABLE) -> bool:
    """Return whether the other end of a connection from ``peer_port`` to ``own_port`` belongs to another user.

    Only Linux can tell. On other systems, and without a connection table, the result is False. If the other end is
    already closed, it has no user any more and counts as another user's, because a browser does not close a connection
    before it has the page.
    """
    try:
        text = table.read_text("ascii")
    except OSError:
        return False
    # A busy machine's table has thousands of rows. Few are about this port.
    own = f":{own_port:04X} "
    rows = [line.split() for line in text.splitlines()[1:] if own in line]
    if not any(row[1].endswith(f":{own_port:04X}") and row[3] == _LISTENS for row in rows):
        return False  # a table without our own port says nothing
    ends = (f":{peer_port:04X}", f":{own_port:04X}")
    return not any(
        row[1].endswith(ends[0])
        and row[2].endswith(ends[1])
        and row[9] != _NO_SOCKET
        and int(row[7]) in (os.getuid(), _ROOT)
        for row in rows
    )
