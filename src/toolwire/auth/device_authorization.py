"""Sign in on another device: this program shows a code, and the user types it there (RFC 8628)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolwire.core.codec import Flow
from toolwire.core.model import Kind, Problem, Secret
from toolwire.core.url_origin import get_host

from .authorization_code import build_credential
from .client_identity import DEVICE_GRANT, ClientIdentity
from .credential import Credential
from .dpop import Prover
from .metadata_discovery import AuthorizationServerMetadata, SignInTarget, is_safe_endpoint
from .token_request import exchange_form, offline_parameters, send_form

_USER_CODE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 -]{0,38}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """What a person types at ``url`` on another device. ``interval_s`` is the pause between two looks.

    ``warning`` is a sentence to show with it where the page is on another host than the server that asks, or empty.
    """

    code: Secret
    user_code: str
    url: str
    interval_s: float
    expires_at: float
    warning: str = ""


def start_device_sign_in(
    target: SignInTarget, identity: ClientIdentity, scopes: Sequence[str], now: float
) -> Flow[DeviceCode | Problem]:
    """Return what to show a person who signs in on another device (RFC 8628)."""
    # AC-13
    if not target.server.device_url:
        text = (
            f"{target.server.issuer} does not support sign-in from another device. Run this command on a "
            "machine with a browser."
        )
        return Problem(kind=Kind.UNAUTHORIZED, message=text)
    data = yield from send_form(target.server.device_url, identity, offline_parameters(target, scopes))
    match data:
        case {"device_code": str(code), "user_code": str(user_code), "verification_uri": str(url), **more}:
            interval, lasts = more.get("interval", 5), more.get("expires_in", 600)
            pause = float(interval) if isinstance(interval, int) and 1 <= interval <= 60 else 5.0
            until = now + (float(lasts) if isinstance(lasts, int) and 0 < lasts <= 3_600 else 600.0)
            # RFC 8628, 5.4: a page that only looks like the server's is how such sign-ins are stolen.
            if not is_safe_endpoint(url, target.server.issuer) or _USER_CODE.fullmatch(user_code) is None:
                text = f"{target.server.issuer} returned a device page or code that is not safe to show."
                return Problem(kind=Kind.BAD_ANSWER, message=text)
            warning = _find_host_warning(url, target.server)
            return DeviceCode(
                code=Secret(code), user_code=user_code, url=url, interval_s=pause, expires_at=until, warning=warning
            )
        case Problem():
            error = data.details.get("error")
            why = f"{target.server.issuer} did not return a device code"
            return replace(data, message=f"{why}: {error}.") if error else data
        case _:
            text = f"{target.server.issuer} did not return a device code."
            return Problem(kind=Kind.BAD_ANSWER, message=text)


def _find_host_warning(url: str, server: AuthorizationServerMetadata) -> str:
    """Return what to say of a page on another host than the issuer of ``server``, or nothing."""
    # AT-53: the endpoints are what the metadata of anybody says.
    host = get_host(url)
    if host == get_host(server.issuer):
        return ""
    return f"Careful: this page is on {host}, not on {get_host(server.issuer)}. Continue only if you know that host."


def poll_device_sign_in(
    target: SignInTarget,
    identity: ClientIdentity,
    device: DeviceCode,
    scopes: Sequence[str],
    now: float,
    prover: Prover | None = None,
) -> Flow[Credential | Problem]:
    """Return the credential once the person has signed in; ``authorization_pending`` in details means: look again."""
    form = {"grant_type": DEVICE_GRANT, "device_code": device.code.reveal()}
    tokens = yield from exchange_form(target.server.token_url, identity, form, now, prover)
    return tokens if isinstance(tokens, Problem) else build_credential(target, identity, tokens, scopes, prover)
