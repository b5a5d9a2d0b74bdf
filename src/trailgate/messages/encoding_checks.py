"""Check that messages are UTF-8, and recognize other encodings for the error text.

All bodies of a batch are checked at once. Only messages that are not UTF-8 are examined one by one:
a byte order mark shows another encoding such as UTF-16, and a zero byte at the beginning may mean
data in a schema registry's format, such as Avro.
"""

from __future__ import annotations

import codecs
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import octets
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.problems import MessageErrors
from trailgate.messages.records import BadMessagesError
from trailgate.messages.utf8_kernels import find_not_utf8

_HINT = "Convert the messages to UTF-8 before capture"
_MARK_HINT = "Convert the messages to UTF-8 before capture: iconv -f {mark} -t UTF-8"
# UTF-32 first: its little-endian mark FF FE 00 00 begins with that of UTF-16, FF FE.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
# Clients of a schema registry write a zero byte and the 4-byte id of the schema before each value.
_REGISTRY_HEAD = 5
_FIRST_OF_OTHERS: Final = np.array([0, *{mark[0] for mark, _ in _MARKS}], np.uint8)


def registry_hint(body: bytes) -> str:
    """Return a hint if a body looks like data in a schema registry's format, for example Avro, otherwise ""."""
    if body[:1] != b"\0" or len(body) < _REGISTRY_HEAD:
        return ""
    number = int.from_bytes(body[1:_REGISTRY_HEAD], "big")
    return (
        f"It begins like a value from a schema registry (schema {number}): Avro, Protobuf or JSON Schema. Bodies are text: "
        "let the producer's or a connector's converter write JSON, or decode them on Spark (from_avro)"
    )


def encoding_error(body: bytes, where: Where) -> DecodeError | None:
    """Build an error if a message body begins with the byte order mark of UTF-16 or UTF-32; otherwise return None."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            problem = f"the message is not UTF-8 text: it begins with the byte order mark of {name}"
            return DecodeError(problem, where=where, hint=_MARK_HINT.format(mark=name))
    return None


def check_utf8(messages: MessageBatch, hint: str = _HINT) -> None:
    """Check that all message bodies are UTF-8. Raises BadMessagesError with those that are not.

    `hint` is the hint of the errors, unless another encoding or Avro is recognized.
    """
    if not are_utf8(messages):
        errors = _utf8_errors(messages, hint)
        if errors:  # otherwise the invalid bytes lie between the messages
            raise BadMessagesError(errors)


def are_utf8(messages: MessageBatch) -> bool:
    """Return whether all bytes of a batch are UTF-8, including those between the bodies."""
    if not len(messages):
        return True
    low, high = int(messages.starts[0]), int(messages.ends[-1])
    return is_utf8(messages.data.slice(low, high - low))


def is_utf8(text: pa.Buffer | bytes) -> bool:
    """Return whether the bytes of a message are UTF-8.

    Uses Arrow's validation, which is several times as fast as decoding.
    """
    data = pa.py_buffer(text)
    offsets = pa.py_buffer(np.array([0, data.size], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, data).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _utf8_errors(messages: MessageBatch, hint: str) -> MessageErrors:
    data, starts, ends = octets(messages.data), messages.starts, messages.ends
    places, stops = np.empty(len(messages), np.int64), np.empty(len(messages), np.int64)
    find_not_utf8(data, starts, ends, places, stops)
    bad = np.flatnonzero(places >= 0)
    begins, at = starts[bad], places[bad]
    raw = gather(data, np.maximum(begins, at - 8), np.minimum(ends[bad], stops[bad] + 8))
    errors = ErrorColumns.of(
        len(bad), "the message is not UTF-8 text", hint, offset=at - begins, raw=raw
    )
    found = MessageErrors()
    # Another encoding, or a schema registry's format, is only recognized if the first byte may begin it.
    odd = np.flatnonzero(np.isin(data[begins], _FIRST_OF_OTHERS))
    if len(odd):
        others = [_other_format(messages, bad[at], errors[at], hint) for at in odd.tolist()]
        found.add(bad[odd], ErrorColumns.of_errors(others))
    found.add(bad, errors)  # of a message with two errors the first one counts
    return found


def _other_format(
    messages: MessageBatch, message: int, error: TrailgateError, hint: str
) -> TrailgateError:
    begin, end = int(messages.starts[message]), int(messages.ends[message])
    body = bytes(memoryview(messages.data)[begin : min(end, begin + _REGISTRY_HEAD)])
    error.hint = registry_hint(body) or hint
    return encoding_error(body, error.where) or error
