"""Sign and verify receipts. A receipt proves, as a detached JWS, that a user decided about one call.

The payload is not sent (RFC 7515, appendix F). It is the call's binding. The verifier builds it from its own knowledge,
so that it never trusts what a receipt says about its call.

Rules:
- The algorithm is Ed25519 (RFC 9864), and no receipt chooses another. A header with any other member is refused.
- A key is found only by its ID, among the configured keys. Keys and URLs in a receipt are ignored.
- Times and nonces are arguments.
"""
# CC-06

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, NamedTuple

from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsontext
from toolwire.framing.jsontext import get_object, get_text

try:
    from joserfc.errors import JoseError
    from joserfc.jwa import JWS_ALGORITHMS
    from joserfc.jwk import OKPKey
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError("Receipts need joserfc: pip install 'toolwire[jwt]'", name=_error.name) from _error

ALGORITHM: Final = "Ed25519"
TYPE: Final = "toolwire-receipt"
MAX_RECEIPT: Final = 2_048
"""The most characters of a receipt."""
MAX_KEYS: Final = 1_000
VALID_S: Final = 300.0
"""How many seconds a receipt is valid at most."""
LEEWAY_S: Final = 30.0
"""How far a server's clock can have gone back since it set a receipt's expiry, in seconds."""

_CURVE: Final = "Ed25519"
_MEMBERS: Final = frozenset({"alg", "typ", "kid", "iat", "exp", "shown"})
_EXACT: Final = 2**53
_MODEL: Final[Any] = next(one for one in JWS_ALGORITHMS if one.name == ALGORITHM)
_UNREADABLE: Final = (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptBinding:
    """The content that a receipt signs. If one member differs, the signature does not match.

    ``audience`` is the host and port that the client called, ``principal`` the caller as the server names it, ``tool``
    the id of the tool at the server. ``definition`` is the digest of the tool's definition there, ``arguments`` that of
    ``digest_arguments``. ``nonce`` is the server's one-time token.
    """

    audience: str
    principal: str
    tool: str
    definition: str
    arguments: str
    nonce: str
    decision: str = "allowed"


class ReceiptHeader(NamedTuple):
    """What a receipt says besides its binding: its key, when the user decided, until when it is valid, and ``shown``.

    Times are in seconds since 1970. ``shown`` is the client's own digest of what its user was shown, as its log has it.
    """

    key_id: str
    decided_at: int
    expires_at: int
    shown: str


@dataclass(frozen=True, slots=True)
class ReceiptKeys:
    """The public keys whose receipts are accepted, by key ID.

    ``owners`` maps a key to its principal. Such a key signs only for this principal.
    """

    keys: Mapping[str, OKPKey] = field(repr=False)
    owners: Mapping[str, str] = field(default_factory=dict, repr=False)

    def to_jwks(self) -> dict[str, Json]:
        """Return the JWK Set of these keys, without their owners."""
        return {"keys": [_write_public_key(key, id_) for id_, key in self.keys.items()]}


class ReceiptKey:
    """A key that signs receipts. Its ID is its thumbprint (RFC 7638)."""

    def __init__(self, jwk: Mapping[str, Json] | None = None) -> None:
        """Create a new key, or use the key in ``jwk``, which is secret.

        Raises:
            ValueError: ``jwk`` is not a private Ed25519 key.
        """
        try:
            key = OKPKey.generate_key(_CURVE) if jwk is None else OKPKey.import_key(_pick(jwk, "kty", "crv", "x", "d"))
            if not key.is_private or key.curve_name != _CURVE:
                raise ValueError("it is not a private Ed25519 key")
        except _UNREADABLE as error:
            raise ValueError("this is not a private Ed25519 key") from error
        self._key = key
        self.id: str = key.thumbprint()

    def to_private_jwk(self) -> dict[str, Json]:
        """Return the key as a JWK. Keep it secret."""
        return {**_write_public_key(self._key, self.id), "d": self._key.as_dict(private=True)["d"]}

    def to_public_jwk(self) -> dict[str, Json]:
        """Return the public key as a JWK, for those who verify receipts."""
        return _write_public_key(self._key, self.id)

    def sign(self, binding: ReceiptBinding, *, decided_at: float, expires_at: float, shown: str = "") -> str:
        """Return a receipt for ``binding``. It is valid until ``expires_at``, in seconds since 1970."""
        header = {"alg": ALGORITHM, "typ": TYPE, "kid": self.id, "iat": int(decided_at), "exp": int(expires_at)}
        protected = _encode(jsontext.write({**header, "shown": shown}))
        signature: bytes = _MODEL.sign(_build_content(protected, binding), self._key)
        return f"{protected}..{_encode(signature)}"


def digest_arguments(arguments: Mapping[str, Json]) -> str:
    """Return the SHA-256 of ``arguments`` as JSON: names sorted, no spaces, whole numbers without a fraction."""
    # One protocol sends 1.0 where another sends 1. They mean the same.
    return sha256(jsontext.write_canonical(_normalize(arguments))).hexdigest()


def read_receipt_keys(data: bytes) -> ReceiptKeys | Problem:
    """Return a JWK Set's Ed25519 keys. Others are left out. The member ``principal`` names a key's owner."""
    document = jsontext.read(data)
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        text = f'This is not a JWK Set: it needs a "keys" list of at most {MAX_KEYS:,}.'
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    keys: dict[str, OKPKey] = {}
    owners: dict[str, str] = {}
    for entry in entries:
        key = _read_public_key(entry)
        if key is None:
            continue
        id_ = get_text(entry, "kid") or key.thumbprint()
        owner = entry.get("principal")
        if id_ in keys or not (owner is None or (isinstance(owner, str) and owner)):
            # A second key under one id, or an owner that cannot be read, must not widen what a key may sign.
            return Problem(kind=Kind.BAD_ANSWER, message=f"The key {id_[:100]!r} is listed twice, or has no owner.")
        keys[id_] = key
        if owner is not None:
            owners[id_] = owner
    if not keys:
        return Problem(kind=Kind.BAD_ANSWER, message="No key in this set can verify Ed25519 signatures.")
    return ReceiptKeys(keys, owners)


def read_header(receipt: str) -> ReceiptHeader | str:
    """Return the header of ``receipt``, which nothing has verified yet, or the end of a sentence: why it has none."""
    protected, payload, signature = receipt.split(".") if receipt.count(".") == 2 else ("", "", "")
    if not protected or payload or not signature or len(receipt) > MAX_RECEIPT or not receipt.isascii():
        return "it cannot be read"
    try:
        header = jsontext.read_without_duplicates(_decode(protected))
    except ValueError:
        return "it cannot be read"
    if not isinstance(header, dict) or header.keys() != _MEMBERS or header["typ"] != TYPE:
        return "it cannot be read"
    if header["alg"] != ALGORITHM:
        return f"it must be signed with {ALGORITHM}"
    key_id, since, until, shown = (header[name] for name in ("kid", "iat", "exp", "shown"))
    if not isinstance(key_id, str) or not isinstance(shown, str) or type(since) is not int or type(until) is not int:
        return "it cannot be read"
    return ReceiptHeader(key_id, since, until, shown)


def find_receipt_fault(receipt: str, keys: ReceiptKeys, binding: ReceiptBinding, now: float) -> str:
    """Return why ``receipt`` does not prove ``binding`` now, as the end of a sentence; ``""`` if it does."""
    header = read_header(receipt)
    if isinstance(header, str):
        return header
    fault = find_signature_fault(receipt, header, keys, binding)
    if fault:
        return fault
    if now >= header.expires_at:
        return "it is too old"
    return "" if header.expires_at <= now + VALID_S + LEEWAY_S else "it is valid for too long"


def find_signature_fault(receipt: str, header: ReceiptHeader, keys: ReceiptKeys, binding: ReceiptBinding) -> str:
    """Return why the signature of ``receipt`` is not one of ``keys`` for ``binding``, at any time; ``""`` if it is."""
    key = keys.keys.get(header.key_id)
    if key is None:
        return "its signing key is unknown"
    if keys.owners.get(header.key_id, binding.principal) != binding.principal:
        return "its key is that of another user"
    protected, _, signature = receipt.split(".")
    try:
        content, raw = _build_content(protected, binding), _decode(signature)
        # base64 has several spellings for the same bytes: one counts. cryptography verifies in constant time.
        is_valid = compare_digest(_encode(raw), signature) and _MODEL.verify(content, raw, key) is True
    except _UNREADABLE:
        is_valid = False
    return "" if is_valid else "it is for another call, caller or server, or was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReceipt:
    """A receipt with its binding, as logs keep it: it can be verified without the server."""

    receipt: str
    binding: ReceiptBinding

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON data."""
        return {"receipt": self.receipt, "binding": asdict(self.binding)}


def read_stored_receipt(data: Json) -> StoredReceipt | None:
    """Return the receipt in ``data``, or in its member ``receipt`` as a log of decisions has it; None without one."""
    if isinstance(data, dict) and isinstance(data.get("receipt"), dict):
        data = data["receipt"]
    if not isinstance(data, dict) or not isinstance(receipt := data.get("receipt"), str):
        return None
    members = get_object(data, "binding")
    if frozenset(members) != frozenset(ReceiptBinding.__slots__) or not all(
        isinstance(value, str) for value in members.values()
    ):
        return None
    return StoredReceipt(receipt=receipt, binding=ReceiptBinding(**members))


def _build_content(protected: str, binding: ReceiptBinding) -> bytes:
    """Return the bytes that are signed: header and payload, each in base64."""
    return f"{protected}.{_encode(jsontext.write_canonical(asdict(binding)))}".encode("ascii")


def _read_public_key(entry: Json) -> OKPKey | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("crv") != _CURVE:
        return None
    if entry.get("alg", ALGORITHM) not in (ALGORITHM, "EdDSA"):  # the older name of the same algorithm
        return None
    try:
        return OKPKey.import_key(_pick(entry, "kty", "crv", "x"))
    except _UNREADABLE:
        return None


def _write_public_key(key: OKPKey, id_: str) -> dict[str, Json]:
    members = _pick(key.as_dict(private=False), "kty", "crv", "x")
    return {**members, "kid": id_, "alg": ALGORITHM, "use": "sig"}


def _pick(data: Mapping[str, Json], *names: str) -> dict[str, Json]:
    return {name: data[name] for name in names if name in data}


def _normalize(data: Json) -> Json:
    match data:
        case float() if data.is_integer() and abs(data) < _EXACT:
            return int(data)
        case Mapping():
            return {str(name): _normalize(value) for name, value in data.items()}
        case list() | tuple():
            return [_normalize(item) for item in data]
        case _:
            return data


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    return b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
