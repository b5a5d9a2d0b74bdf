"""Whether the bodies of messages are text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch

_HINT = "Convert the messages to UTF-8 before capture"


def check_utf8(messages: MessageBatch, hint: str = _HINT) -> None:
    """Check at once that all bodies are UTF-8; raises BadMessagesError where some are not."""
    if not are_utf8(messages):
        errors = _bad_texts(messages, hint)
        if errors:  # else the bytes that are not text lie between the messages
            raise BadMessagesError(errors)


def are_utf8(messages: MessageBatch) -> bool:
    """Return whether the bytes from the first body to the end of the last one are UTF-8."""
    if not len(messages):
        return True
    low, high = int(messages.starts[0]), int(messages.ends[-1])
    return is_utf8(messages.data.slice(low, high - low))


def is_utf8(text: pa.Buffer | bytes) -> bool:
    """Return whether bytes are UTF-8, by Arrow's check, which is several times as fast as decoding."""
    data = pa.py_buffer(text)
    offsets = pa.py_buffer(np.array([0, data.size], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, data).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _bad_texts(messages: MessageBatch, hint: str) -> dict[int, TrailgateError]:
    errors: dict[int, TrailgateError] = {}
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    whole = memoryview(messages.data)
    for message, (begin, end) in enumerate(bounds):
        body = bytes(whole[begin:end])
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raw = body[max(0, error.start - 8) : error.end + 8]
            where = Where(offset=error.start, raw=raw)
            errors[message] = DecodeError("the message is not UTF-8 text", where=where, hint=hint)
    return errors
