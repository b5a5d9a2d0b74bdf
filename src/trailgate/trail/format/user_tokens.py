"""User tokens, the payload of U: names and values that a TABLE clause's TOKENS adds to records.

Assumed: name, NUL, value, NUL, repeated; only the limits are public (trail format §9). What does not fit is kept in hex.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trailgate.errors import EncodeError, Where

MAX_BYTES: Final = 2000  # of all of a record (OGG-01397)
MAX_NAME: Final = 256
TX_OWNER: Final = "TX_OWNER"  # tokens that fill the columns tx_owner and tx_name (decision 0021)
TX_NAME: Final = "TX_NAME"
UNREAD: Final = "USER"  # what tokens are called that do not fit the assumed layout


def read_user_tokens(payload: bytes) -> list[tuple[str, str]] | None:
    """Return names and values in order; None where the payload does not fit the assumed layout."""
    parts = payload.split(b"\0")
    if len(payload) > MAX_BYTES or len(parts) % 2 == 0 or parts.pop():
        return None
    names, values = parts[0::2], parts[1::2]
    if not all(0 < len(name) <= MAX_NAME for name in names):
        return None
    try:
        return [(n.decode(), v.decode()) for n, v in zip(names, values, strict=True)]
    except UnicodeDecodeError:
        return None


def user_token_bytes(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return the payload of U; raises EncodeError for what does not fit it."""
    payload = b""
    for name, value in pairs:
        where = Where(field=name)
        if "\0" in name + value:
            raise EncodeError("a user token cannot hold a NUL", where=where)
        if not 0 < len(name.encode()) <= MAX_NAME:
            raise EncodeError(f"a user token's name has 1 to {MAX_NAME} bytes", where=where)
        payload += name.encode() + b"\0" + value.encode() + b"\0"
    if len(payload) > MAX_BYTES:
        problem = f"user tokens of {len(payload)} bytes: a record has at most {MAX_BYTES}"
        raise EncodeError(problem)
    return payload
