"""Make the TLS context that all connections of a process share."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def find_tls_context() -> ssl.SSLContext:
    """Return the TLS context. The first call reads the trusted roots, which takes about 10 ms.

    ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` replace the roots of the system.
    """
    return _make_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)  # the environment decides which roots are read, and it may change
def _make_context(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    import ssl  # http:// needs none of it

    if sys.platform in ("darwin", "win32") and not (cert_file or cert_dir):
        import truststore  # installed only where OpenSSL does not find the system's roots

        context: ssl.SSLContext = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
