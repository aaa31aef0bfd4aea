"""Ask once whether a gateway's file may be used, because it can run code and send environment variables."""
# AT-40

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from toolwire.core.errors import DefinitionError, UsageError
from toolwire.core.url_display import show_url
from toolwire.hosting.options import list_serve_options
from toolwire.hosting.serve_settings import UpstreamSettings
from toolwire.hosting.targets.target import UrlTarget, read_target
from toolwire.stores.consent.agreed_digests import open_trusted_settings
from toolwire.stores.paths import find_state_folder

from .gateway_file import DEFAULTS, GatewayFile
from .operators import list_rules, read_upstream_rules
from .project_trust import SETTINGS_VARIABLE, AskTrust, digest_file, is_trusted
from .settings import find_user_file

_NAMES: Final = {option.field: option.name for option in list_serve_options()}
_VARIABLES: Final = ("key_env", "header_env")
_PLACES: Final = ("state", "ledger", "rates", "jwks", "wake", "receipt-keys")


def trust_gateway(path: Path, data: bytes, file: GatewayFile, ask: AskTrust | None) -> bool:
    """Return whether the gateway's file at ``path`` with the text ``data`` may be used. Ask the user if needed.

    The user's own file needs no approval. ``ask`` asks the user, if that is possible.

    Raises:
        UsageError: the user does not trust it yet, and nobody can be asked.
    """
    digest = digest_file(path, data)
    if path == find_user_file() or is_trusted(digest):
        return True
    if ask is None:
        raise UsageError(
            f"{path.name} is not trusted yet, so nothing was run or sent. The file can run code and send "
            "secrets. Read it, then run `toolwire gateway check` in a terminal, or set "
            f"{SETTINGS_VARIABLE}=trust."
        )
    warning = "This runs code with all your permissions, and sends the values of these variables."
    if not ask(path, list(describe_gateway(file)), warning):
        return False
    store_trust(path, data)
    return True


def store_trust(path: Path, data: bytes) -> None:
    """Store that the user trusts this file with this text.

    Raises:
        DefinitionError: there is no place for it.
    """
    open_trusted_settings(find_state_folder()).add(digest_file(path, data), str(path))


def record_trust(path: Path, before: bytes, after: bytes) -> None:
    """Store that a file is still trusted after the user changed it. ``before`` is empty for a new file."""
    if not before or is_trusted(digest_file(path, before)):
        with suppress(DefinitionError):  # without a home, each command asks
            store_trust(path, after)


def describe_gateway(file: GatewayFile) -> Iterator[str]:
    """Yield a line for each thing that a gateway's file runs, opens, sends to, or sets."""
    # D-21: everything that a file sets is listed. A server, a CA file or a client can do as much harm as a target.
    for upstream in file.upstreams:
        yield from _describe_upstream(upstream)
    webhooks = [file.webhook, *(one.webhook for one in file.callers.values())]
    for webhook in dict.fromkeys(one for one in webhooks if one is not None):
        yield f"webhook: sends to {show_url(webhook.url)}{_name_variables([webhook.secret_env])}"
    for name, value in _list_options(vars(file.arguments), ()):
        is_place = "://" in value and name in _PLACES
        yield f"{name}: connects to {value}" if is_place else f"{name} = {value}"
    yield from _describe_people(file)


def _describe_upstream(upstream: UpstreamSettings) -> Iterator[str]:
    yield f"{upstream.name}: {_describe_target(upstream)}{_name_variables(_list_variables(upstream))}"
    if upstream.exchange:
        names = filter(None, [str(upstream.exchange.get("client-secret-env", ""))])
        yield f"{upstream.name}: exchanges tokens at {upstream.exchange['token-url']}{_name_variables(list(names))}"
    if upstream.agreed_command:
        yield f"{upstream.name}: runs that program without a question"
    if upstream.agree:
        trusted = "true" if upstream.agree is True else ", ".join(upstream.agree)
        yield f"{upstream.name}: agree = {trusted}"
    for pattern, groups in upstream.approvers.items():
        yield f"{upstream.name}: questions about {pattern} are answered by {', '.join(groups)}"
    if upstream.returns:
        yield f"{upstream.name}: returns = {', '.join(upstream.returns)}"
    for kind, rule in list_rules(read_upstream_rules(upstream)):
        yield f"{upstream.name}: {kind} = {rule.words}"
    for name, value in _list_options(asdict(upstream.remote), _VARIABLES):
        yield f"{upstream.name}: {name} = {value}"


def _describe_people(file: GatewayFile) -> Iterator[str]:
    """Yield a line for the address of the gateway, and for each app or person that gets a right from the file."""
    if file.public_url:
        yield f"public-url = {file.public_url}"
    if file.sign_in is not None:
        yield from (f"sign-in: {name} may open the console" for name in file.sign_in.operators)
        if (provider := file.sign_in.provider) is not None:
            names = _name_variables(list(filter(None, [provider.client_secret_env])))
            yield f"sign-in: people sign in at {provider.issuer}{names}"
            yield from (f"sign-in: the group {name} may open the console" for name in provider.operator_groups)
        for name, client in file.sign_in.clients.items():
            yield f"sign-in: the app {name} gets its codes at {', '.join(client.redirect_uris)}"
    for name, caller in file.callers.items():
        if caller.answered_by:
            yield f"caller {name}: its questions are answered by {', '.join(caller.answered_by)}"


def _describe_target(upstream: UpstreamSettings) -> str:
    try:
        is_url = isinstance(read_target(upstream.target), UrlTarget)
    except UsageError:  # the command reports what is wrong with it
        return upstream.target
    if not is_url:
        return f"runs the code of {upstream.target}"
    return upstream.target if upstream.target.startswith("stdio:") else f"connects to {show_url(upstream.target)}"


def _list_options(values: Mapping[str, Any], left_out: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each option that is not as it is without a file."""
    for field, value in values.items():
        if field not in left_out and value != DEFAULTS[field] and value not in ((), []):
            several = value if isinstance(value, list) else ["true" if isinstance(value, bool) else value]
            texts = map(str, several)
            yield _NAMES.get(field, field), ", ".join(show_url(one) if "://" in one else one for one in texts)


def _list_variables(upstream: UpstreamSettings) -> list[str]:
    found: list[str] = [upstream.client_secret_env]
    for option in _VARIABLES:
        value = getattr(upstream.remote, option)
        found += [text.rpartition("=")[2] for text in ([value] if isinstance(value, str) else value or ())]
    return list(filter(None, found))


def _name_variables(names: Sequence[str]) -> str:
    return f", and sends the value of {', '.join(names)}" if names else ""
