"""Read a gateway's file, ``toolwire.toml``: how to serve, and the upstreams with their own options.

The file states the gateway's URL for its callers, because a request can name any host.

A member of the file is an option of ``toolwire serve`` without its dashes. Each error is one sentence with the member's
line and column. Relative paths in the file start at the file's folder.
"""
# GW-01, AT-34

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import urlsplit

from toolwire.auth.redirect_uris import read_redirect_uri
from toolwire.auth.request_parameters import OAuthError
from toolwire.client.discovery.local_files import DOCUMENT_SUFFIXES
from toolwire.client.transport.limits import DEFAULT_LIMITS
from toolwire.client.transport.program_limits import MAX_PROGRAM_LIMITS
from toolwire.consent.operator_rules import RuleKind, read_rules
from toolwire.core.command_option import REMOVED, CommandOption, build_record, list_command_options
from toolwire.core.condition import read_ask_when
from toolwire.core.errors import DefinitionError, UsageError
from toolwire.core.model import RateLimit
from toolwire.core.url_origin import get_authority, get_host, read_origin
from toolwire.framing.jsontext import describe_type
from toolwire.gateway.upstream import RUNNING
from toolwire.hosting.gateway_sign_in import EVERYONE, ClientSettings, ProviderSettings, SignInSettings
from toolwire.hosting.options import RETURNS, RemoteOptions, list_serve_options
from toolwire.hosting.serve_settings import (
    BundleSettings,
    CallerSettings,
    UpstreamAccount,
    UpstreamSettings,
    WebhookSettings,
)
from toolwire.hosting.toml_file import SECRETS, SETTINGS_TABLES, TomlFile, read_bytes, read_option_value
from toolwire.limits import EFFECTS, Effect
from toolwire.limits.caller_rules import EVERY_CALLER

from .serve_settings import ServeSettings

UPSTREAM_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")

NO_FILE: Final = "`toolwire gateway add URL` creates one."
"""What to do if a gateway has no file."""
LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "::1", "localhost"})

_UPSTREAMS: Final = "upstreams"
_CALLERS: Final = "callers"
_BUNDLES: Final = "bundles"
_SIGN_IN: Final = "sign-in"
_MAX_UPSTREAMS: Final = 1_000
_MAX_CALLERS: Final = 10_000
_MAX_MEMBERS: Final = 10_000
_MAX_CLIENTS: Final = 1_000
_MAX_SCOPES: Final = 1_000
_MAX_NAME_LENGTH: Final = 60
_MAX_CACHE_S: Final = 60
_SCOPE: Final = re.compile(r"[!#-\[\]-~]{1,100}")
_OF_A_CALLER: Final = (
    *("members", "claims", "scopes", "tools", "effects", "arguments"),
    *("rate", "running", "questions", "answered-by", "webhook"),
)
_TOOL_PATTERN: Final = re.compile(r"[A-Za-z0-9_*?-]{1,64}(?:\.[^\s\[\]]{1,200})?")
_MAX_PATTERNS: Final = 1_000
_LIST_OF_TOOLS: Final = 'an array of patterns: "UPSTREAM", or "UPSTREAM.TOOL", with * and ?'
_OF_A_PROVIDER: Final = ("client-id", "client-secret-env", "groups-claim", "claims", "operator-groups")
_OF_A_SIGN_IN: Final = (
    *("name", "scopes", "default-scopes", "registration", "clients", "cache", "operators", "issuer"),
    *_OF_A_PROVIDER,
)
_MAX_RUNNING: Final = 100_000
_MAX_TIMEOUT_S: Final = 3_600
_RULES: Final[tuple[RuleKind, ...]] = ("run", "ask", "never")
AGREED_COMMAND: Final = "agreed-command"
"""The member of an upstream with the digest of the program that the file agrees to."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_OF_A_GATEWAY: Final = (
    "target",
    "scopes",
    *_RULES,
    "returns",
    "approvers",
    AGREED_COMMAND,
    "program-limits",
    "rate",
    "running",
    "timeout",
    "credentials",
    "client-id",
    "client-secret-env",
    "exchange",
)
"""The members of an upstream that are no options of ``toolwire serve``."""
_SELF_APPROVAL: Final = "self-approval"
_OF_THE_SERVER: Final = ("key-file", "public-url", "webhook", _SELF_APPROVAL)
"""The members above the upstreams that are no options of ``toolwire serve``."""
_OF_A_BUNDLE: Final = ("title", "tools", "effects")
_BUNDLE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_MAX_BUNDLES: Final = 200
_OF_THE_FILE: Final = (_UPSTREAMS, _CALLERS, _BUNDLES, _SIGN_IN, *_OF_THE_SERVER)
_OF_AN_EXCHANGE: Final = ("token-url", "client-id", "client-secret-env", "audience", "resource", "scopes")
_OF_A_WEBHOOK: Final = ("url", "secret-env", "arguments")
OWN_OPTIONS: Final = {
    option.name: option
    for option in list_serve_options()
    if option.field == "agree" or option in tuple(list_command_options(RemoteOptions))
}
"""The options of ``toolwire serve`` that each upstream has separately, by name."""
_SERVER_OPTIONS: Final = {
    option.name: option
    for option in list_serve_options()
    if option.name not in OWN_OPTIONS and option.field not in ("document", "returns")
}
"""The other options, for the whole server. No upstream is a class with a document, and each has ``returns``."""


DEFAULTS: Final[Mapping[str, Any]] = {
    **{option.field: option.default for option in list_serve_options()},
    "targets": (),
    "stdio": False,
    "reload": False,
    "debug": False,
}
"""The default of each option of ``toolwire serve``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFile:
    """The content of a file: the server's options, the upstreams in order, and rules and bundles by name.

    ``key_file`` contains the key that encrypts the callers' credentials. ``public_url`` is the gateway's URL: as given,
    or the single allowed host that has a port, or else empty. ``sign_in`` says how users sign in to the gateway itself,
    if they do. ``webhook`` says where new questions are sent, if anywhere.
    """

    arguments: Namespace
    upstreams: tuple[UpstreamSettings, ...]
    callers: Mapping[str, CallerSettings] = field(default_factory=dict)
    bundles: Mapping[str, BundleSettings] = field(default_factory=dict)
    key_file: str = ""
    public_url: str = ""
    sign_in: SignInSettings | None = None
    webhook: WebhookSettings | None = None


def read_gateway_file(path: Path) -> GatewayFile:
    """Return what the file says.

    Raises:
        UsageError: the file cannot be read or is not valid. The message contains the line and the column.
    """
    data = read_bytes(path, NO_FILE)
    return parse_gateway_file(data, path.name)


def parse_gateway_file(data: bytes, name: str) -> GatewayFile:
    """Return the content of ``data``. Errors call the file ``name``.

    Raises:
        UsageError: ``data`` is not valid. The message contains the line and the column.
    """
    return _Reader(TomlFile(data, name)).read()


class _Reader:
    def __init__(self, file: TomlFile) -> None:
        self._file, self._fail = file, file.fail
        self._has_approvers = False

    def read(self) -> GatewayFile:
        content = self._file.content
        others = SETTINGS_TABLES | {*_OF_THE_FILE}
        server = {name: value for name, value in content.items() if name not in others}
        arguments = Namespace(**{**DEFAULTS, **self._read_options((), server, _SERVER_OPTIONS)})
        tables = content.get(_UPSTREAMS, {})
        if not isinstance(tables, dict) or not tables:
            self._fail((_UPSTREAMS,), "there is no upstream: give each a table, such as [upstreams.tasks]")
        if len(tables) > _MAX_UPSTREAMS:
            self._fail((_UPSTREAMS,), f"there are more than {_MAX_UPSTREAMS:,} upstreams")
        upstreams = tuple(self._read_upstream(name, table) for name, table in tables.items())
        seen: set[str] = set()
        for name in tables:
            if name.casefold() in seen:
                self._fail((_UPSTREAMS, name), "another upstream has this name in other letters: rename one")
            seen.add(name.casefold())
        public_url = self._read_url((), content, "public-url") or find_allowed_address(arguments)
        callers, webhook = self._read_callers(content, tuple(tables)), self._read_webhook((), content)
        callers = self._refuse_self_approval(content, callers, arguments)
        if self._has_approvers and arguments.receipts:
            self._fail(
                (_UPSTREAMS,), "a receipt is the answer of the caller's own user: leave out receipts or approvers"
            )
        self._check_deciders(callers, arguments, has_users=_SIGN_IN in content)
        webhook_places = [(), *((_CALLERS, name) for name, one in callers.items() if one.webhook is not None)]
        if (webhook is not None or len(webhook_places) > 1) and not self._has_inbox(arguments, callers):
            place = () if webhook is not None else webhook_places[1]
            self._fail(
                (*place, "webhook"),
                'a webhook tells of questions in the inbox: set consent = "inbox", or questions = "inbox" for a caller',
            )
        return GatewayFile(
            arguments=arguments,
            upstreams=upstreams,
            callers=callers,
            bundles=self._read_bundles(content, tuple(tables)),
            webhook=webhook,
            key_file=self._read_text((), content, "key-file"),
            public_url=public_url,
            sign_in=self._read_sign_in(content, public_url, upstreams),
        )

    def _read_sign_in(
        self, content: Mapping[str, Any], public_url: str, upstreams: Sequence[UpstreamSettings]
    ) -> SignInSettings | None:
        """Return how people sign in at the gateway, or None if they do not."""
        if _SIGN_IN not in content:
            return None
        place = (_SIGN_IN,)
        table = self._read_table(place, content[_SIGN_IN], _OF_A_SIGN_IN, _SIGN_IN)
        issuer = self._read_issuer(public_url)
        scopes = self._read_supported_scopes(table, upstreams)
        defaults = self._read_scopes(place, table, "what the page preselects", "default-scopes")
        if unknown := next((one for one in defaults or () if one not in scopes), None):
            self._fail((*place, "default-scopes"), f"there is no scope {unknown[:40]!r} in this file")
        return SignInSettings(
            issuer=issuer,
            name=self._read_label(place, table, "name") or "this gateway",
            scopes=scopes,
            default_scopes=defaults or tuple(scopes),
            registration=self._read_flag(place, table, "registration", default=True),
            clients=self._read_clients(table),
            cache_s=self._read_number(place, table, "cache", _MAX_CACHE_S, least=0) or 0,
            operators=self._read_names((*place, "operators"), table.get("operators", []), "names of people"),
            provider=self._read_provider(table),
        )

    def _read_provider(self, table: Mapping[str, Any]) -> ProviderSettings | None:
        """Return the external issuer where users sign in, or None if they have accounts here."""
        # PL-03
        place, issuer = (_SIGN_IN,), self._read_url((_SIGN_IN,), table, "issuer")
        if not issuer:
            if given := next((one for one in _OF_A_PROVIDER if one in table), ""):
                self._fail((*place, given), f"{given} is for people who sign in elsewhere: name the issuer")
            return None
        is_local = urlsplit(issuer).hostname in LOCAL_HOSTS
        if urlsplit(issuer).query or urlsplit(issuer).fragment or not (issuer.startswith("https://") or is_local):
            self._fail((*place, "issuer"), "issuer is an https URL without a query (http on this machine)")
        client_id = self._read_text(place, table, "client-id")
        if not client_id or not client_id.isprintable():
            self._fail((*place, "issuer"), "an issuer needs client-id, the name of this gateway there")
        groups_claim = self._read_text(place, table, "groups-claim") if "groups-claim" in table else "groups"
        operators = self._read_names((*place, "operator-groups"), table.get("operator-groups", []), "groups")
        return ProviderSettings(
            issuer=issuer,
            client_id=client_id,
            client_secret_env=self._read_text(place, table, "client-secret-env"),
            groups_claim=groups_claim,
            claims=self._read_conditions(
                (*place, "claims"), table.get("claims", []), '[["/hd", "eq", "team.example"]]'
            ),
            operator_groups=operators,
        )

    def _read_names(self, place: tuple[str, ...], names: Any, what: str) -> Sequence[str]:
        """Return the ``names`` of ``what``, a plural. The name for all other callers is not allowed."""
        if not isinstance(names, list) or not all(isinstance(one, str) and one.strip() for one in names):
            self._fail(place, f"{place[-1][:40]} must be an array of {what}")
        if EVERY_CALLER in names or len(names) > _MAX_MEMBERS:
            text = f"must name each one, at most {_MAX_MEMBERS:,}: there is no name for all of them"
            self._fail(place, f"{place[-1][:40]} {text}")
        return names

    def _read_issuer(self, public_url: str) -> str:
        """Return the gateway's URL for users, whose passwords are sent there."""
        origin = read_origin(public_url) if public_url else None
        if origin is None:
            self._fail(
                (_SIGN_IN,), f"people sign in at the address of the gateway, which the file must name: {NAME_IT}"
            )
        if urlsplit(public_url).query:
            self._fail(("public-url",), "where people sign in, public-url has no query")
        if origin.scheme != "https" and get_host(public_url) not in LOCAL_HOSTS:
            self._fail(("public-url",), "people send passwords there, so public-url is https (http on this machine)")
        return public_url.rstrip("/")

    def _read_supported_scopes(
        self, table: Mapping[str, Any], upstreams: Sequence[UpstreamSettings]
    ) -> Mapping[str, str]:
        """Return each scope that users can give to an app, with its description."""
        place = (_SIGN_IN, "scopes")
        given = table.get("scopes", {})
        if not isinstance(given, dict) or not all(isinstance(words, str) and words.strip() for words in given.values()):
            self._fail(place, 'scopes is a table of scopes with words for people, such as sums = "Use the calculator"')
        supported: dict[str, list[str]] = {}
        for upstream in upstreams:
            for scope in upstream.scopes or ():
                if _SCOPE.fullmatch(scope) is None:
                    self._fail(
                        (_UPSTREAMS, upstream.name, "scopes"), f"{scope[:40]!r} is not a scope: one word of ASCII"
                    )
                supported.setdefault(scope, []).append(upstream.name)
        words = {scope: f"Use the tools of {', '.join(names)}" for scope, names in supported.items()}
        if not words or any(upstream.scopes is None for upstream in upstreams):
            words[EVERYONE] = "Use the tools that are for everyone"
        for scope in given:
            if _SCOPE.fullmatch(scope) is None:
                self._fail((*place, scope), f"{scope[:40]!r} is not a scope: one word of ASCII")
            words[scope] = self._read_label(place, given, scope)
        if len(words) > _MAX_SCOPES:
            self._fail(place, f"there are more than {_MAX_SCOPES:,} scopes")
        return words

    def _read_clients(self, table: Mapping[str, Any]) -> Mapping[str, ClientSettings]:
        place, tables = (_SIGN_IN, "clients"), table.get("clients", {})
        if not isinstance(tables, dict) or len(tables) > _MAX_CLIENTS:
            self._fail(place, f"clients are tables, such as [sign-in.clients.editor], at most {_MAX_CLIENTS:,}")
        return {name: self._read_client(name, one) for name, one in tables.items()}

    def _read_client(self, name: str, table: Any) -> ClientSettings:
        place = (_SIGN_IN, "clients", name)
        table = self._read_table(place, table, ("name", "redirect-uris"), "a client")
        uris = table.get("redirect-uris")
        if not isinstance(uris, list) or not uris or not all(isinstance(one, str) for one in uris):
            self._fail(place, 'a client needs "redirect-uris", an array of URLs')
        for uri in uris:
            if isinstance(refusal := read_redirect_uri(uri), OAuthError):
                self._fail((*place, "redirect-uris"), refusal.description.rstrip("."))
        return ClientSettings(name=self._read_label(place, table, "name") or name, redirect_uris=tuple(uris))

    def _read_label(self, place: tuple[str, ...], table: Mapping[str, Any], name: str) -> str:
        """Return a text for a page: one line of printable characters."""
        text = self._read_text(place, table, name)
        if len(text) > _MAX_NAME_LENGTH or not text.isprintable():
            self._fail((*place, name), f"{name[:40]} is a text of at most {_MAX_NAME_LENGTH} printable characters")
        return text

    def _read_callers(self, content: Mapping[str, Any], upstreams: Sequence[str]) -> dict[str, CallerSettings]:
        tables = content.get(_CALLERS, {})
        if not isinstance(tables, dict):
            self._fail((_CALLERS,), "callers are tables, such as [callers.ann]")
        if len(tables) > _MAX_CALLERS:
            self._fail((_CALLERS,), f"there are more than {_MAX_CALLERS:,} callers")
        read = {name: self._read_caller(name, table, upstreams) for name, table in tables.items()}
        for group, table in tables.items():
            for member in self._read_members(group, table):
                if member in read:
                    self._fail((_CALLERS, group, "members"), f"{member[:40]!r} has a table, or is in another group")
                read[member] = replace(read[group], claims=(), member_of=group)
        return read

    def _refuse_self_approval(
        self, content: Mapping[str, Any], callers: dict[str, CallerSettings], arguments: Namespace
    ) -> dict[str, CallerSettings]:
        """Return the callers' rules. If the file forbids self-approval, no caller can answer their own questions."""
        # PL-03
        if self._read_flag((), content, _SELF_APPROVAL, default=True):
            return callers
        if arguments.receipts:
            self._fail((_SELF_APPROVAL,), "a receipt is the answer of the caller's own user: leave out receipts")
        # A client's own user is not another user, so every question goes to the inbox.
        found = {EVERY_CALLER: CallerSettings(), **callers}
        return {name: replace(one, questions="inbox", self_approval=False) for name, one in found.items()}

    def _read_members(self, group: str, table: Mapping[str, Any]) -> Sequence[str]:
        """Return the names of the callers to whom this table's rules also apply, to each one separately."""
        place, members = (_CALLERS, group, "members"), table.get("members", [])
        if not isinstance(members, list) or not all(isinstance(one, str) and one for one in members):
            self._fail(place, "members is an array of names of callers")
        if len(members) > _MAX_MEMBERS:
            self._fail(place, f"there are more than {_MAX_MEMBERS:,} members")
        return members

    def _read_caller(self, name: str, table: Any, upstreams: Sequence[str]) -> CallerSettings:
        place = (_CALLERS, name)
        table = self._read_table(place, table, _OF_A_CALLER, "a caller")
        questions = self._read_text(place, table, "questions")
        if questions not in ("", "inbox"):
            self._fail((*place, "questions"), 'questions is "inbox": each goes to the inbox of this caller')
        return CallerSettings(
            scopes=self._read_scopes(place, table, "what this caller has, whatever its key or token says"),
            rate=self._read_rate(place, table),
            running=self._read_number(place, table, "running", _MAX_RUNNING),
            questions=questions,
            answered_by=self._read_names((*place, "answered-by"), table.get("answered-by", []), "names"),  # AT-35
            webhook=self._read_webhook(place, table),
            claims=self._read_claims(name, table),
            tools=self._read_patterns(place, table, upstreams),
            effects=self._read_effects(place, table),
            arguments=self._read_argument_conditions(place, table, upstreams),
        )

    def _read_bundles(self, content: Mapping[str, Any], upstreams: Sequence[str]) -> dict[str, BundleSettings]:
        """Return the bundles of tools by name."""
        # PL-02
        tables = content.get(_BUNDLES, {})
        if not isinstance(tables, dict) or len(tables) > _MAX_BUNDLES:
            self._fail((_BUNDLES,), f"bundles are tables, such as [bundles.support], at most {_MAX_BUNDLES}")
        return {name: self._read_bundle(name, table, upstreams) for name, table in tables.items()}

    def _read_bundle(self, name: str, table: Any, upstreams: Sequence[str]) -> BundleSettings:
        place = (_BUNDLES, name)
        if _BUNDLE_NAME.fullmatch(name) is None:
            self._fail(place, "the name of a bundle is a part of its URL: up to 64 small letters, digits and -")
        table = self._read_table(place, table, _OF_A_BUNDLE, "a bundle")
        if not {"tools", "effects"} & table.keys():
            self._fail(place, f'a bundle needs "tools", {_LIST_OF_TOOLS}, or "effects"')
        return BundleSettings(
            title=self._read_label(place, table, "title"),
            tools=self._read_patterns(place, table, upstreams),
            effects=self._read_effects(place, table),
        )

    def _read_claims(self, name: str, table: Mapping[str, Any]) -> Sequence[Any]:
        place, claims = (_CALLERS, name, "claims"), table.get("claims", [])
        if claims and name == EVERY_CALLER:
            self._fail(place, 'claims are for a group: give it a name instead of "*", which is every other caller')
        return self._read_conditions(place, claims, '[["/groups", "eq", "support"]]')

    def _read_conditions(self, place: tuple[str, ...], given: Any, example: str) -> Sequence[Any]:
        if not isinstance(given, list):
            self._fail(place, f"{place[-1][:40]} is an array of conditions, such as {example}")
        try:
            read_ask_when(given, place[1] if place[0] == _CALLERS else place[0], place[-1][:40])
        except DefinitionError as error:
            self._fail(place, str(error).rstrip("."))
        return given

    def _read_patterns(
        self, place: tuple[str, ...], table: Mapping[str, Any], upstreams: Sequence[str]
    ) -> Sequence[str] | None:
        """Return the tool name patterns under ``tools``, or None if there are none."""
        # PL-02
        tools, here = table.get("tools"), (*place, "tools")
        if tools is None:
            return None
        if not isinstance(tools, list) or len(tools) > _MAX_PATTERNS:
            self._fail(here, f"tools is {_LIST_OF_TOOLS}, at most {_MAX_PATTERNS:,}")
        for one in tools:
            self._check_pattern(here, one, upstreams)
        return tools

    def _check_pattern(self, here: tuple[str, ...], pattern: Any, upstreams: Sequence[str]) -> None:
        if not isinstance(pattern, str) or _TOOL_PATTERN.fullmatch(pattern) is None:
            self._fail(here, f"{str(pattern)[:60]!r} is not a pattern of tools; write {_LIST_OF_TOOLS}")
        name = pattern.partition(".")[0]
        if not any(fnmatchcase(one, name) for one in upstreams):
            near = get_close_matches(name, upstreams, 1)
            hint = f'; did you mean "{near[0]}"?' if near else ": a pattern begins with the name of one"
            self._fail(here, f"there is no upstream {name!r}{hint}")

    def _read_effects(self, place: tuple[str, ...], table: Mapping[str, Any]) -> Sequence[Effect] | None:
        effects = table.get("effects")
        if effects is not None and not (isinstance(effects, list) and all(one in EFFECTS for one in effects)):
            self._fail((*place, "effects"), f"effects is an array of some of {', '.join(EFFECTS)}")
        return effects

    def _read_argument_conditions(
        self, place: tuple[str, ...], table: Mapping[str, Any], upstreams: Sequence[str]
    ) -> Mapping[str, Sequence[Any]]:
        arguments, here = table.get("arguments", {}), (*place, "arguments")
        if not isinstance(arguments, dict) or len(arguments) > _MAX_PATTERNS:
            self._fail(here, 'arguments is a table of patterns, such as "tasks.close" = [["/project", "eq", "help"]]')
        for pattern in arguments:
            self._check_pattern((*here, pattern), pattern, upstreams)
        example = '[["/project", "eq", "help"]]'
        return {name: self._read_conditions((*here, name), some, example) for name, some in arguments.items()}

    def _check_deciders(self, callers: Mapping[str, CallerSettings], arguments: Namespace, *, has_users: bool) -> None:
        """Refuse names under "answered-by" that could never count."""
        for name, one in callers.items():
            if one.answered_by and not self._has_inbox(arguments, callers):
                text = 'questions are answered in the inbox: set consent = "inbox", or questions = "inbox" for a caller'
                self._fail((_CALLERS, name, "answered-by"), text)
            # A user with this name can answer. The caller's own key or token cannot.
            if list(one.answered_by) == [name] and not has_users:
                text = f"{name} does not answer its own questions: name another caller"
                self._fail((_CALLERS, name, "answered-by"), text)

    def _has_inbox(self, arguments: Namespace, callers: Mapping[str, CallerSettings]) -> bool:
        is_asked = arguments.consent == "inbox" or any(one.questions == "inbox" for one in callers.values())
        return is_asked or self._has_approvers

    def _read_webhook(self, place: tuple[str, ...], table: Mapping[str, Any]) -> WebhookSettings | None:
        webhook, here = table.get("webhook"), (*place, "webhook")
        if webhook is None:
            return None
        if isinstance(webhook, dict) and "secret" in webhook:
            self._fail((*here, "secret"), "a secret does not belong into this file; name its variable: secret-env")
        webhook = self._read_table(here, webhook, _OF_A_WEBHOOK, "webhook")
        url, name = self._read_url(here, webhook, "url"), self._read_text(here, webhook, "secret-env")
        if not url or not name:
            self._fail(here, 'a webhook needs "url", and "secret-env", the variable that has its secret')
        return WebhookSettings(url=url, secret_env=name, arguments=self._read_flag(here, webhook, "arguments"))

    def _read_table(self, place: tuple[str, ...], table: Any, known: Sequence[str], what: str) -> Mapping[str, Any]:
        """Return ``table``, called ``what``, after checking that it contains only ``known`` members."""
        if not isinstance(table, dict):
            self._fail(place, f"{what} is a table, not {describe_type(table)}")
        self._refuse_unknown(place, table, known)
        return table

    def _read_flag(self, place: tuple[str, ...], table: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
        found = table.get(name, default)
        if not isinstance(found, bool):
            self._fail((*place, name), f"{name} must be true or false, not {describe_type(found)}")
        return found

    def _refuse_unknown(self, place: tuple[str, ...], table: Mapping[str, Any], known: Sequence[str]) -> None:
        for member in table:
            if member not in known:
                near = get_close_matches(member, known, 1)
                hint = f'; did you mean "{near[0]}"?' if near else f": it may have {', '.join(known)}"
                self._fail((*place, member), f'there is no option "{member[:40]}" here{hint}')

    def _read_scopes(
        self, place: tuple[str, ...], table: Mapping[str, Any], meaning: str, name: str = "scopes"
    ) -> list[str] | None:
        scopes = table.get(name)
        if scopes is not None and not (isinstance(scopes, list) and all(isinstance(one, str) for one in scopes)):
            self._fail((*place, name), f"{name} is an array of strings: {meaning}")
        return scopes

    def _read_text(self, place: tuple[str, ...], table: Mapping[str, Any], name: str) -> str:
        text = table.get(name, "")
        if not isinstance(text, str):
            self._fail((*place, name), f"{name} is a string, not {describe_type(text)}")
        return text

    def _read_url(self, place: tuple[str, ...], table: Mapping[str, Any], name: str) -> str:
        text = self._read_text(place, table, name)
        origin = read_origin(text) if text else None
        if text and (origin is None or origin.has_user_info or origin.scheme not in ("http", "https")):
            self._fail((*place, name), f"{name} is the URL of a page, such as https://tools.example")
        return text

    def _read_account(self, place: tuple[str, ...], table: Mapping[str, Any]) -> UpstreamAccount:
        found: Any = table.get("credentials", "gateway")
        if found not in get_args(UpstreamAccount):
            self._fail((*place, "credentials"), "credentials must be one of gateway, caller, exchange")
        if (found == "exchange") is not ("exchange" in table):
            self._fail(place, 'credentials = "exchange" and the table exchange belong together')
        target = str(table["target"])
        is_document = "://" not in target and target.lower().endswith(DOCUMENT_SUFFIXES)
        if found != "gateway" and not (target.startswith(("http://", "https://")) or is_document):
            text = "callers have credentials at a URL, or at the API of an OpenAPI document; the target is neither"
            self._fail((*place, "credentials"), text)
        chosen: UpstreamAccount = found
        return chosen

    def _read_exchange(self, place: tuple[str, ...], table: Mapping[str, Any]) -> dict[str, Any]:
        here = (*place, "exchange")
        exchange = self._read_table(here, table.get("exchange", {}), _OF_AN_EXCHANGE, "exchange")
        if not exchange:
            return {}
        read = {name: self._read_text(here, exchange, name) for name in exchange if name != "scopes"}
        for name in ("token-url", "client-id"):
            if not read.get(name):
                self._fail(here, f'exchange needs "{name}", a string')
        self._read_url(here, exchange, "token-url")
        return read | {"scopes": self._read_scopes(here, exchange, "what the exchanged token is for") or []}

    def _read_rate(self, place: tuple[str, ...], table: Mapping[str, Any]) -> str:
        rate = table.get("rate", "")
        if not isinstance(rate, str):
            self._fail((*place, "rate"), f'rate is a string such as "60/1m", not {describe_type(rate)}')
        try:
            if "rate" in table:
                RateLimit.parse(rate)
        except ValueError as error:
            self._fail((*place, "rate"), str(error))
        return rate

    def _read_number(
        self, place: tuple[str, ...], table: Mapping[str, Any], name: str, most: int, *, least: int = 1
    ) -> int | None:
        number = table.get(name)
        if number is None:
            return None
        if isinstance(number, bool) or not isinstance(number, int):
            self._fail((*place, name), f"{name} must be an integer, not {describe_type(number)}")
        if not least <= number <= most:
            self._fail((*place, name), f"{name} is {least} to {most:,}, not {number}")
        return number

    def _read_upstream(self, name: str, table: Any) -> UpstreamSettings:
        place = (_UPSTREAMS, name)
        if UPSTREAM_NAME.fullmatch(name) is None:
            self._fail(place, "the name of an upstream is a letter, then up to 31 letters, digits, - and _")
        if not isinstance(table, dict):
            self._fail(place, f"an upstream is a table, not {describe_type(table)}")
        target = table.get("target")
        if not isinstance(target, str) or not target.strip():
            self._fail((*place, "target"), 'an upstream needs "target", a string: a URL, a file or a command')
        rest = {member: value for member, value in table.items() if member not in _OF_A_GATEWAY}
        # QF-01: the command line can only trust all tools. The file can name them.
        agree = None
        if not isinstance(table.get("agree", False), bool):
            agree = self._read_scopes(place, table, "the names of tools that run without a question, or true", "agree")
        given = self._read_options(place, rest if agree is None else {**rest, "agree": bool(agree)}, OWN_OPTIONS)
        return UpstreamSettings(
            name=name,
            target=target,
            scopes=self._read_scopes(place, table, "what the key of a caller must have"),
            agree=given.get("agree", False) if agree is None else agree,
            returns=self._read_returns(place, table),
            approvers=self._read_approvers(place, table),
            agreed_command=self._read_digest(place, table),
            program_limits=self._read_program_limits(place, table),
            **{kind: self._read_rules(place, table, kind) for kind in _RULES},
            remote=build_record(RemoteOptions, given),
            account=self._read_account(place, table),
            client_id=self._read_text(place, table, "client-id"),
            client_secret_env=self._read_text(place, table, "client-secret-env"),
            exchange=self._read_exchange(place, table),
            rate=self._read_rate(place, table),
            running=self._read_number(place, table, "running", _MAX_RUNNING) or RUNNING,
            timeout_s=self._read_number(place, table, "timeout", _MAX_TIMEOUT_S) or DEFAULT_LIMITS.total_s,
        )

    def _read_digest(self, place: tuple[str, ...], table: Mapping[str, Any]) -> str:
        """Return the digest of the program that the file approves, or an empty string."""
        # PL-06
        digest = self._read_text(place, table, AGREED_COMMAND)
        if digest and _DIGEST.fullmatch(digest) is None:
            self._fail((*place, AGREED_COMMAND), f"{AGREED_COMMAND} must be what `toolwire gateway agree NAME` writes")
        return digest

    def _read_program_limits(self, place: tuple[str, ...], table: Mapping[str, Any]) -> Mapping[str, int]:
        """Return the limits of an upstream's program."""
        name = "program-limits"
        limits = self._read_table((*place, name), table.get(name, {}), tuple(MAX_PROGRAM_LIMITS), name)
        found = {one: self._read_number((*place, name), limits, one, most) for one, most in MAX_PROGRAM_LIMITS.items()}
        return {one: most for one, most in found.items() if most is not None}

    def _read_rules(self, place: tuple[str, ...], table: Mapping[str, Any], kind: RuleKind) -> Sequence[Any]:
        """Return the operator's rules about an upstream's tools, after checking that they are valid."""
        # QF-02
        given: Sequence[Any] = table.get(kind, ())
        try:
            read_rules(kind, given)
        except DefinitionError as error:
            self._fail((*place, kind), str(error).rstrip("."))
        return given

    def _read_returns(self, place: tuple[str, ...], table: Mapping[str, Any]) -> Sequence[str]:
        """Return what the operator declares about an upstream's results."""
        # QF-06
        given: Any = table.get("returns", [])
        if not isinstance(given, list) or any(one not in RETURNS for one in given):
            self._fail((*place, "returns"), 'returns must be an array of "private" and "untrusted"')
        return given

    def _read_approvers(self, place: tuple[str, ...], table: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Return the groups that answer questions about each pattern's tools. Nobody else can."""
        # PL-03
        given, here = table.get("approvers", {}), (*place, "approvers")
        if isinstance(given, list):
            given = {"*": given}
        if not isinstance(given, dict) or len(given) > _MAX_PATTERNS:
            self._fail(here, 'approvers must be an array of groups, or a table such as {"close*" = ["leads"]}')
        self._has_approvers = self._has_approvers or bool(given)
        found = {pattern: self._read_names(here, groups, "groups") for pattern, groups in given.items()}
        if not all(found.values()):
            self._fail(here, "name at least one group for each pattern, or no one can answer")
        return found

    def _read_options(
        self, place: tuple[str, ...], table: Mapping[str, Any], known: Mapping[str, CommandOption]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for member, value in table.items():
            here = (*place, member)
            if member in SECRETS:
                self._fail(here, f"a secret does not belong into this file; {SECRETS[member]}")
            option = known.get(member)
            if option is None:
                is_server = known is _SERVER_OPTIONS
                others = OWN_OPTIONS if is_server else _SERVER_OPTIONS
                near = get_close_matches(member, (*known, *(_OF_THE_FILE if is_server else _OF_A_GATEWAY)), 1)
                hint = f'; did you mean "{near[0]}"?' if near else ""
                if member in others:
                    hint = "; it belongs to an upstream" if is_server else "; it belongs above the upstreams"
                elif member in REMOVED:
                    hint = f". {REMOVED[member]}"
                self._fail(here, f'there is no option "{member[:40]}" here{hint}')
            found[option.field] = self._read_value(here, option, value)
        return found

    def _read_value(self, here: tuple[str, ...], option: CommandOption, value: Any) -> Any:
        try:
            return read_option_value(option, value)
        except ValueError as error:
            self._fail(here, str(error))


NAME_IT: Final = 'set public-url = "https://tools.example", or one allow-host with its port'
"""What to do if a file states no URL."""
_HAS_A_PORT: Final = re.compile(r":\d{1,5}\Z")


def find_allowed_address(arguments: Namespace) -> str:
    """Return the URL of the single host that ``arguments`` allows, if it has a port, or else ``""``."""
    hosts = arguments.hosts
    if len(hosts) != 1 or _HAS_A_PORT.search(hosts[0]) is None:
        return ""
    url = f"{'https' if arguments.tls_cert else 'http'}://{hosts[0].lower()}"
    return url + arguments.root_path.rstrip("/") if read_origin(url) is not None else ""


def require_address(settings: ServeSettings) -> ServeSettings:
    """Return ``settings``, with the gateway's URL as the receipt audience unless they name another audience.

    Raises:
        UsageError: something that is served needs the gateway's URL, and the file does not state it.
    """
    user = next(_list_users(settings), None)
    if user is not None and not settings.server.public_url:
        text = "and nothing in a request may say where that is"
        raise UsageError(f"{user} the address of this gateway, {text}: {NAME_IT} above the upstreams.")
    if not settings.server.receipts or settings.server.receipt_audience:
        return settings
    server = replace(settings.server, receipt_audience=get_authority(settings.server.public_url))
    return replace(settings, server=server)


def _list_users(settings: ServeSettings) -> Iterator[str]:
    """Yield the beginning of a sentence for each part of ``settings`` that needs the gateway's URL."""
    signing_in = [one.name for one in settings.upstreams if one.account == "caller"]
    if signing_in:
        yield f"The callers of the upstream {signing_in[0]} sign in at"
    if settings.webhook is not None or any(one.webhook is not None for one in settings.callers.values()):
        yield "A webhook names"
    if settings.server.receipts and not settings.server.receipt_audience:
        yield "Receipts are signed for"
    if settings.has_inbox and (settings.api_keys or settings.tokens or settings.sign_in is not None):
        yield "Callers are sent to the inbox at"
