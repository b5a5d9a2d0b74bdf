"""Messages of other encodings than UTF-8, made UTF-8 for the scanner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.xml.scanner import DECLARATION
from trailgate.messages.xml.tree.documents import encoding_of

_UTF8: Final = frozenset({"utf-8", "utf8", "utf-8-sig"})
_HEAD: Final = 1024  # bytes that a declaration is within
_END: Final = b"?>"


def utf8_numbers(messages: MessageBatch, numbers: Iterable[int]) -> tuple[list[int], list[bytes]]:
    """Return which of these messages are of another encoding, and their texts as UTF-8.

    Declarations are blank then, so that places are those of the document as UTF-8. One that is not text of its encoding is left out, as is
    one with a declaration that is not plainly right.
    """
    whole = memoryview(messages.data)
    found, bodies = [], []
    for number in numbers:
        body = bytes(whole[messages.starts[number] : messages.ends[number]])
        encoding = encoding_of(body[:_HEAD])
        if encoding.lower() in _UTF8:
            continue
        try:
            text = body.decode(encoding).encode()
        except (LookupError, UnicodeError):
            continue
        end = 0
        if text.startswith(b"<?xml"):
            end = text.find(_END, 0, _HEAD) + len(_END)
            if DECLARATION.fullmatch(text[:end]) is None:
                continue
        found.append(number)
        bodies.append(b" " * end + text[end:])
    return found, bodies


def batch_of(messages: MessageBatch, numbers: list[int], bodies: list[bytes]) -> MessageBatch:
    """Return some messages of a batch with other bodies."""
    sizes = np.array([len(body) for body in bodies], np.int64)
    ends: Longs = np.cumsum(sizes)
    which = np.array(numbers, np.int64)
    headers = messages.headers
    return replace(
        messages,
        data=pa.py_buffer(b"".join(bodies)),
        starts=ends - sizes,
        ends=ends,
        files=messages.files[which],
        offsets=messages.offsets[which],
        headers=None if headers is None else tuple(headers[number] for number in numbers),
    )
