"""The actions of ``toolwire approvals`` about receipts: make and print keys, verify a receipt without its server."""
# CC-06

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from toolwire.core.errors import UsageError
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext
from toolwire.hosting.input_file import read_input_file
from toolwire.stores.consent.receipt_keys import StoredReceiptKeys

from .exits import FAILED, OK
from .terminal.screen import escaped, json_text, print_error, show_time

if TYPE_CHECKING:  # an extra, and few users have receipts
    from toolwire.auth.receipt import ReceiptKeys, StoredReceipt

_MAX_FILE = 64 * 1024 * 1024


def print_keys(folder: Path, *, rotate: bool) -> int:
    """Print the public keys of this user as a JWK Set; make the first one, or with ``rotate`` another one, before."""
    _check_extra()
    keys = StoredReceiptKeys(folder)
    if rotate or not keys.list_public():
        keys.rotate()
    print(json_text({"keys": keys.list_public()}, indent=2))
    return OK


def verify_receipts(folder: Path, file: str, keys_file: str | None, *, as_json: bool) -> int:
    """Print whether each receipt in ``file`` is one of a known key for its binding; fail if one is not."""
    _check_extra()
    from toolwire.auth.receipt import read_receipt_keys, read_stored_receipt  # an extra, as above

    if keys_file is None:
        data = jsontext.write({"keys": StoredReceiptKeys(folder).list_public()})
    else:
        data = read_input_file(Path(keys_file), _MAX_FILE, keys_file)
    keys = read_receipt_keys(data)
    if isinstance(keys, Problem):
        text = f"{keys.message} Name the keys with --keys FILE." if keys_file is None else keys.message
        raise UsageError(f"No keys to verify with: {text}")
    documents = _read_documents(read_input_file(Path(file), _MAX_FILE, file))
    receipts = [found for one in documents if (found := read_stored_receipt(one)) is not None]
    if not receipts:
        print_error(f"{file} contains no receipts.")
        return FAILED
    faults = [_verify(one, keys, as_json=as_json) for one in receipts]
    return FAILED if any(faults) else OK


def _verify(stored: StoredReceipt, keys: ReceiptKeys, *, as_json: bool) -> str:
    from toolwire.auth.receipt import find_signature_fault, read_header  # an extra, as above

    header = read_header(stored.receipt)
    fault = header if isinstance(header, str) else find_signature_fault(stored.receipt, header, keys, stored.binding)
    facts: dict[str, Json] = {"valid": not fault, "fault": fault}
    if not isinstance(header, str):
        facts |= {
            "decided_at": show_time(header.decided_at),
            "expires_at": show_time(header.expires_at),
            "key": header.key_id,
            "shown": header.shown,
        }
    if as_json:
        print(json_text({**facts, "binding": asdict(stored.binding)}))
        return fault
    bound = stored.binding
    about = f"{escaped(bound.tool)} at {escaped(bound.audience)} for {escaped(bound.principal)}"
    if fault or isinstance(header, str):
        print_error(f"The receipt of {about} is invalid: {fault}.")
        return fault
    print(f"valid: {escaped(bound.decision)} {about}, decided {show_time(header.decided_at)}")
    print(f"  arguments {bound.arguments}")
    print(f"  definition {bound.definition}")
    print(f"  key {escaped(header.key_id)}, valid until {show_time(header.expires_at)}")
    return ""


def _read_documents(text: bytes) -> list[Json]:
    """Return the JSON documents of a file: one, or one on each line."""
    whole = jsontext.read(text)
    if not isinstance(whole, Problem):
        return whole if isinstance(whole, list) else [whole]
    lines = [jsontext.read(line) for line in text.splitlines() if line.strip()]
    return [one for one in lines if not isinstance(one, Problem)]


def _check_extra() -> None:
    if find_spec("joserfc") is None:
        raise UsageError("Receipts need joserfc: pip install 'toolwire[jwt]'.")
