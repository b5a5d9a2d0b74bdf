"""Captures of messages by properties, with the files that these name held in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.capture.capture import Capture
from trailgate.capture.formats import find_parser_type
from trailgate.cobol.copybook.layouts import CobolDialect, CopybookLayout
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.definitions.defgen import read_sourcedefs
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.metadata_options import MetadataOptions
from trailgate.messages.properties import parse_properties
from trailgate.model.tables import Definitions

NOW: Final = 1_577_836_800_000_000  # 2020-01-01
ALL_COLUMNS: Final = CaptureRules(compress_updates=False, compress_deletes=False)
SHOP_FILE: Final = Path(__file__).parent / "formats/delimited/cases/shop.def"
SHOP: Final = SHOP_FILE.read_text()
EVENTS: Final = "parser.type=debezium\ndebezium.sourcedefs=shop.def\ndebezium.txid=source.txId\n"


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """Files by their names."""

    held: Mapping[str, str | Definitions]

    def chosen(self, path: str) -> str:
        return path

    def sourcedefs(self, path: str) -> Definitions:
        held = self.held[path]
        return read_sourcedefs(held.encode(), path) if isinstance(held, str) else held

    def copybook(self, path: str, dialect: CobolDialect) -> list[CopybookLayout]:
        texts = {name: text for name, text in self.held.items() if isinstance(text, str)}
        return read_copybook(texts[path], source=path, dialect=dialect, member=texts.get)


def held_setup(
    properties: str, files: Mapping[str, str | Definitions]
) -> tuple[MetadataOptions, Definitions]:
    """Return the options and definitions of properties, and of the files that they name."""
    parsed = parse_properties(properties.encode(), "a.properties")
    return find_parser_type(parsed).setup(parsed, HeldFiles(files))


def held_capture(
    properties: str, files: Mapping[str, str], rules: CaptureRules = ALL_COLUMNS
) -> Capture:
    """Return a capture by properties, and the files that they name."""
    options, definitions = held_setup(properties, files)
    capture = Capture(options, definitions, rules, NOW)
    capture.check()
    return capture


def fixed_capture(properties: str, files: Mapping[str, str]) -> Capture:
    """Return a capture of fixed-width messages."""
    return held_capture(f"parser.type=fixed\n{properties}", files)


def xml_capture(properties: str, rules: CaptureRules = ALL_COLUMNS) -> Capture:
    """Return a capture of XML messages, of the tables of ``shop.def``."""
    text = f"parser.type=xml\nxml.sourcedefs=shop.def\n{properties}"
    return held_capture(text, {"shop.def": SHOP}, rules)


def json_capture(properties: str, definitions: str = SHOP) -> Capture:
    """Return a capture of JSON messages; ``definitions`` is the text of the file ``shop.def``."""
    return held_capture(properties, {"shop.def": definitions})


def messages_of(bodies: Sequence[bytes], between: bytes = b"\n") -> MessageBatch:
    """Return messages with these bodies, each a file of its own."""
    lengths = np.array([len(body) for body in bodies], np.int64)
    ends = np.cumsum(lengths + len(between)) - len(between)
    count = len(bodies)
    files, offsets = np.arange(count), np.zeros(count, np.int64)
    data = pa.py_buffer(between.join(bodies))
    return MessageBatch(data, ends - lengths, ends, files, offsets)
