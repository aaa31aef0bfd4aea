"""Find names with which a server reads a request as another: another method, path or caller.

Rules:
- A key of an open object must not become such a name in a query.
"""
# D-11: servers and proxies of several vendors read such headers and query fields before they route a request.

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json

from .parameter_styles import FORM
from .plan import Parameter, Place

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
_STARTS: Final = ("x_forwarded_", "x_original_", "x_rewrite_")


def is_override(name: str) -> bool:
    """Return whether servers or proxies read ``name`` as an order to change the method, path or caller."""
    plain = name.strip().lower().replace("-", "_")
    return plain in _NAMES or plain.startswith(_STARTS)


def find_overriding_key(parameter: Parameter, value: Json) -> str:
    """Return the first key of ``value`` that would become an override in a query, or ``""``."""
    if not isinstance(value, Mapping) or not has_spread_properties(parameter):
        return ""
    return next((key for key in value if is_override(key)), "")


def has_spread_properties(parameter: Parameter) -> bool:
    """Return whether the properties of an object become names in the query."""
    if parameter.place is Place.QUERYSTRING:
        return parameter.media_type == FORM
    return parameter.place is Place.QUERY and parameter.style == "form" and parameter.explode
