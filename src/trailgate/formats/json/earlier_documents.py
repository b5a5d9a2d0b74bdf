"""Find the JSON documents of a message that precede a fault, so that the first faulty one can be named.

A parser checks all messages of a batch together, one property after the other, so the fault that it
finds in a message need not be in the message's first faulty document. Example: document 2 is not
JSON, document 1 has a value that is not a number. The documents before a fault are therefore parsed
again, each as a message of its own.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.formats.json.scanner import JsonScanner
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.parser import EarlierRecords
from trailgate.messages.records import BadMessagesError

# Messages that are not JSON are decoded one by one, up to so many bytes before their faults.
_MOST_BYTES: Final = 64 << 20
_BLANKS: Final = " \t\r\n\x1e"

_Spans = list[tuple[int, int]]


def documents_before(
    scanner: JsonScanner, messages: MessageBatch, offsets: Longs
) -> EarlierRecords | None:
    """Return the JSON documents that end before the fault of their message, or None if there are none.

    `offsets` contains for each message the offset of its fault.
    """
    numbers = np.arange(len(messages))
    parts: list[tuple[Longs, Longs, Longs]] = []  # message, start and end of documents
    while len(numbers):
        part = messages if len(numbers) == len(messages) else messages.only(numbers)
        try:
            nodes = scanner.scan(part)
        except BadMessagesError as bad:
            parts += _decode(messages, offsets, numbers[bad.messages])
            numbers = np.delete(numbers, bad.messages)
            continue
        message = numbers[nodes.message]
        first = nodes.start[nodes.root] - (part.starts - part.starts[0])[nodes.message]
        parts.append((message, first, first + nodes.length[nodes.root]))
        break
    message, first, end = (np.concatenate(own) for own in zip(*parts, strict=True))
    order = np.argsort(message, kind="stable")
    message, first, end = message[order], first[order], end[order]
    number = np.arange(len(message)) - np.searchsorted(message, message) + 1
    kept = np.flatnonzero(end <= offsets[message])
    if not len(kept):
        return None
    message, first, end = message[kept], first[kept], end[kept]
    headers = messages.headers
    batch = replace(
        messages,
        starts=messages.starts[message] + first,
        ends=messages.starts[message] + end,
        files=messages.files[message],
        offsets=messages.offsets[message],
        headers=None if headers is None else tuple(headers[at] for at in message.tolist()),
        received=None if messages.received is None else messages.received[message],
        removed=None,
    )
    return EarlierRecords(batch, message, number[kept], first)


def _decode(
    messages: MessageBatch, offsets: Longs, numbers: Longs
) -> list[tuple[Longs, Longs, Longs]]:
    """Find the documents before the syntax errors of messages that are not JSON.

    `numbers` are these messages. Returns for each of them three arrays with an element per
    document: the number of the message, and the document's start and end. Stops after `_MOST_BYTES`
    of text.
    """
    found, left, data = [], _MOST_BYTES, memoryview(messages.data)
    for number in numbers.tolist():
        left -= int(offsets[number])
        if left < 0:
            break
        begin = int(messages.starts[number])
        # Faults of the encoding are found before those of the syntax: the text before is UTF-8, or has no offset.
        text = bytes(data[begin : begin + int(offsets[number])]).decode(errors="replace")
        spans = np.array(_spans(text), np.int64).reshape(-1, 2)
        if not text.isascii():
            sizes = np.array([len(c.encode()) for c in text], np.int64)
            spans = np.append(0, np.cumsum(sizes))[spans]
        found.append((np.full(len(spans), number), spans[:, 0], spans[:, 1]))
    return found or [(np.zeros(0, np.int64),) * 3]


def _spans(text: str) -> _Spans:
    """Return the spans of the complete JSON documents at the beginning of a text.

    The elements of an array are documents.
    """
    decoder, at = json.JSONDecoder(), 0
    spans: _Spans = []
    while True:
        # Between documents are blanks; within an array also its brackets and commas.
        while at < len(text) and text[at] in f"{_BLANKS}\ufeff[],":
            at += 1
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return spans
        spans.append((at, end))
        at = end
