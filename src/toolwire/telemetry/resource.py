"""Describe what sends spans and metrics, as OpenTelemetry does: a service, and this process as its instance.

The name of the service is ``toolwire``, unless ``OTEL_SERVICE_NAME`` or ``OTEL_RESOURCE_ATTRIBUTES`` names another.
"""
# PL-04

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Final
from uuid import uuid4

from opentelemetry.sdk.resources import Resource

_NAME: Final = "service.name"
_INSTANCE: Final = "service.instance.id"


def build_resource() -> Resource:
    """Return what sends: the service with its name and version, and this process as its instance."""
    found = Resource.create({"service.version": version("toolwire")})
    # Those of the environment win. The SDK itself calls a service without a name "unknown_service".
    own = {_NAME: "toolwire"} if str(found.attributes[_NAME]).startswith("unknown_service") else {}
    if _INSTANCE not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        own[_INSTANCE] = str(uuid4())
    return found.merge(Resource(own))
