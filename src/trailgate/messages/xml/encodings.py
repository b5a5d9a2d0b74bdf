"""Messages of other encodings than UTF-8, made UTF-8 for the scanner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.errors import DecodeError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.xml.scanner import DECLARATION
from trailgate.messages.xml.tree.document_encodings import (
    DECLARED,
    UTF8,
    declared_in,
    decoded,
    encoding_of,
)

_HEAD: Final = 1024  # bytes that a declaration is within
_END: Final = b"?>"


def utf8_numbers(
    messages: MessageBatch, numbers: Iterable[int], given: str = DECLARED
) -> tuple[list[int], list[bytes]]:
    """Return which of these messages are or declare another encoding, and their texts as UTF-8; ``given`` is the encoding of all without a mark.

    Declarations are blank then, so that places are those of the document as UTF-8. One that is not text of its encoding is left out, as is
    one with a declaration that is not plainly right.
    """
    whole = memoryview(messages.data)
    found, bodies = [], []
    for number in numbers:
        body = bytes(whole[messages.starts[number] : messages.ends[number]])
        head = body[:_HEAD]
        named = encoding_of(head, given), declared_in(head) or "utf-8"
        if UTF8.issuperset(name.lower() for name in named):
            continue
        try:
            text = decoded(body, given)[1].encode()
        except DecodeError:
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
