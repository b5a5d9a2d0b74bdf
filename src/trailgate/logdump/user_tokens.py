"""User tokens: their inner layout is not public; name and value, each ended by a NUL, is assumed."""

from __future__ import annotations


def read_user_tokens(payload: bytes) -> list[tuple[str, str]] | None:
    """Return names and values; None where the assumed layout does not fit the bytes."""
    if not payload.endswith(b"\0"):
        return None
    parts = payload[:-1].split(b"\0")
    if len(parts) % 2:
        return None
    try:
        texts = [part.decode() for part in parts]
    except UnicodeDecodeError:
        return None
    names = texts[::2]
    if not all(name and name.isprintable() for name in names):
        return None
    return list(zip(names, texts[1::2], strict=True))
