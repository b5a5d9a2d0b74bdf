"""Captures of JSON messages by properties, with tables held in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from fixed_files import ALL_COLUMNS, HeldFiles
from message_cases import NOW
from trailgate.capture.capture import Capture
from trailgate.capture.formats import parser_of
from trailgate.expressions.selection import CaptureRules
from trailgate.messages.messages import MessageBatch
from trailgate.messages.properties import parse_properties

EVENTS: Final = "parser.type=debezium\ndebezium.sourcedefs=shop.def\ndebezium.txid=source.txId\n"
NONE: Final = np.zeros(0, np.int64)


def json_capture(
    properties: str, definitions: str = "", captured: CaptureRules = ALL_COLUMNS
) -> Capture:
    """Return a capture of messages by properties; ``definitions`` is the text of the file ``shop.def``."""
    parsed = parse_properties(properties.encode(), "a.properties")
    files = HeldFiles({"shop.def": definitions} if definitions else {})
    options, tables = parser_of(parsed).setup(parsed, files)
    capture = Capture(options, tables, captured, NOW)
    capture.check()
    return capture


def messages_of(bodies: Sequence[bytes], between: bytes = b"\n") -> MessageBatch:
    """Return messages with these bodies, each a file of its own."""
    lengths = np.array([len(body) for body in bodies], np.int64)
    ends = np.cumsum(lengths + len(between)) - len(between)
    count = len(bodies)
    files, offsets = np.arange(count), np.zeros(count, np.int64)
    data = pa.py_buffer(between.join(bodies))
    return MessageBatch(data, ends - lengths, ends, files, offsets)
