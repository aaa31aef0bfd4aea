"""Make the TLS context that all connections of a process share."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def find_tls_context(ca_file: str = "") -> ssl.SSLContext:
    """Return the TLS context. The first call reads the trusted roots, which takes about 10 ms.

    ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` replace the roots of the system. The certificates in ``ca_file`` (PEM) are
    trusted in addition.

    Raises:
        OSError: ``ca_file`` cannot be read, or has no certificate.
    """
    return _make_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"), ca_file)


def digest_trust(ca_file: str | Path | None) -> str:
    """Return a digest of the certificates that are trusted beside or in place of the roots of the system, or ``""``.

    Raises:
        OSError: a file with certificates cannot be read.
    """
    files = [str(path) for path in (os.environ.get("SSL_CERT_FILE"), ca_file) if path]
    folder = os.environ.get("SSL_CERT_DIR", "")
    if not files and not folder:
        return ""
    return sha256(b"\0".join([folder.encode(), *(Path(path).read_bytes() for path in files)])).hexdigest()


def check_ca_file(path: str | Path | None) -> str:
    """Return ``path`` as text, ``""`` for None, once its certificates have been read.

    Raises:
        ValueError: the file cannot be read, or has no certificate.
    """
    if path is None:
        return ""
    try:
        find_tls_context(str(path))
    except OSError as error:
        why = error.strerror if error.filename or isinstance(error, FileNotFoundError) else "it has no PEM certificate"
        raise ValueError(f"cannot use the CA file {path}: {why}") from error
    return str(path)


@lru_cache(maxsize=16)  # the environment decides which roots are read, and it may change
def _make_context(cert_file: str | None, cert_dir: str | None, ca_file: str) -> ssl.SSLContext:
    import ssl  # http:// needs none of it

    if sys.platform in ("darwin", "win32") and not (cert_file or cert_dir):
        import truststore  # installed only where OpenSSL does not find the system's roots

        context: ssl.SSLContext = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        context = ssl.create_default_context()
    if ca_file:
        # In addition to the roots: the certificates of the user do not replace those of the system.
        context.load_verify_locations(ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context
