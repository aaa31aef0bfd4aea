"""Find names with which a server reads a request as another: another method, path or caller, or another argument.

Rules:
- A key of an open object must not become such a name in a query, a cookie or a form.
- Nor must it become the name of another field: a rule or a permission about that argument would not see it.
"""
# D-11: servers and proxies of several vendors read such headers and query fields before they route a request.

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote_plus

from toolwire.core.model import Json

from .parameter_styles import FORM
from .plan import Parameter, Place, Plan

_NAMES: Final = frozenset(
    (
        *("_http_method", "_httpmethod", "_method", "http_method_override", "method_override"),
        *("x_http_method", "x_http_method_override", "x_http_path_override", "x_method", "x_method_override"),
        *(
            "x_tunnel_method",
            "x_override_url",
            "x_request_uri",
            "x_script_name",
            "x_envoy_original_path",
            "x_proxy_url",
        ),
        *("x_waws_unencoded_url", "x_http_destinationurl", "x_accel_redirect", "x_sendfile"),
        *("x_host", "x_real_ip", "x_client_ip", "x_cluster_client_ip", "true_client_ip"),
    )
)
SPREADING: Final = ("form", "spaceDelimited", "pipeDelimited", "cookie", "matrix")
"""The styles in which the properties of an object become names, if it is exploded."""
_STARTS: Final = ("x_forwarded_", "x_original_", "x_rewrite_")


def is_override(name: str) -> bool:
    """Return whether servers or proxies read ``name`` as an order to change the method, path or caller."""
    plain = name.strip().lower().replace("-", "_")
    return plain in _NAMES or plain.startswith(_STARTS)


def find_overriding_key(plan: Plan, parameter: Parameter, value: Mapping[str, Json]) -> str:
    """Return the first key of ``value`` that would become an override, or another field of its place, or ``""``."""
    is_deep = parameter.style == "deepObject"
    if not is_deep and not has_spread_properties(parameter):
        return ""
    place = Place.QUERY if parameter.place is Place.QUERYSTRING else parameter.place
    taken = [one.name for _, one in plan.parameters if one.place is place and one is not parameter]
    taken += [one.name for some in plan.security for one in some if one.place is place]
    if place is Place.QUERY:
        taken += [unquote_plus(pair.partition("=")[0]) for pair in plan.fixed_query.split("&") if pair]
    keys = [f"{parameter.name}[{key}]" for key in value] if is_deep else list(value)
    return next(filter(is_override, keys), "") or find_taken_key(keys, taken)


def describe_override(key: str) -> str:
    """Return what servers would take a key of ``find_overriding_key`` for, as the end of a sentence."""
    # A server may read the last of two fields with one name, or the first.
    what = "another method or path" if is_override(key) else "another argument, so give it there"
    return f"some servers would take it for {what}"


def find_taken_key(keys: Iterable[str], taken: Iterable[str]) -> str:
    """Return the first of ``keys`` that servers may read as a field in ``taken``, or ``""``."""
    # Some servers read "name[]" as name, and do not tell Name from name.
    names = {name.strip().casefold().removesuffix("[]") for name in taken}
    for key in keys:
        plain = key.strip().casefold()
        if plain in names or plain.partition("[")[0] in names:
            return key
    return ""


def has_spread_properties(parameter: Parameter) -> bool:
    """Return whether the properties of an object become names in the query, in a path, or of cookies."""
    if parameter.place is Place.QUERYSTRING:
        return parameter.media_type == FORM
    return parameter.explode and parameter.style in SPREADING and not parameter.media_type
