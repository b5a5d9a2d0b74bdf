"""A source that can be asked again from any transaction, and its writer: what a crash must not show in.

Run as a program it writes a trail until it is done or killed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from sample_trail import DEFINITIONS, NOTES, Op, Transaction, changes
from trailgate.definitions.defgen_layout import complete_table
from trailgate.model.changes import ChangeBatch
from trailgate.model.tables import Definitions
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.live.growing_file import Disk
from trailgate.storage.live.live_trail import AppendOptions, Recovery
from trailgate.storage.live.recovery import Recovered
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.writing.trail_format import TrailFormat, UpdateFormat
from trailgate.trail.writing.writer import encode

ABEND, OK, METADATA = 150, 151, 170
SMALL_SOURCE: list[Transaction] = [
    [Op("I", 1)],
    [Op("I", 2), Op("U", 2, "new", "old"), Op("D", 2), Op("I", 3, None, table=NOTES), Op("D", 3)],
    [Op("I", 4), Op("I", 5)],
    [Op("U", 5, "y", "x")],
    [Op("I", number, "long" * 20) for number in range(6, 11)],
    [Op("D", 6)],
]
SIZE = 1900  # a header and a few records, so that files change inside transactions
MODES = {
    "append": AppendOptions(Recovery.APPEND, max_bytes=SIZE),
    "append to new files": AppendOptions(Recovery.APPEND, max_bytes=SIZE, new_file=True),
    "append, small files": AppendOptions(Recovery.APPEND, max_bytes=1),
    "append, one file": AppendOptions(Recovery.APPEND),
    "metadata": AppendOptions(
        trail_format=TrailFormat(5, ByteOrder.LITTLE, UpdateFormat.FULL), max_bytes=SIZE + 1000
    ),
}


def records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a file's body that are all there."""
    place = 0
    while place + 4 <= len(data):
        length = int.from_bytes(data[place + 2 : place + 4], order(data))
        if place + length > len(data):
            return
        yield data[place : place + length]
        place += length


def body(path: Path) -> bytes:
    """Return what stands behind a file's header, if it has one."""
    data = path.read_bytes()
    return data[int.from_bytes(data[2:4], order(data)) :] if data[:1] == b"F" else data


def order(data: bytes) -> Literal["big", "little"]:
    """Return the byte order in which the length of the first object is the smaller one."""
    big, little = (int.from_bytes(data[2:4], name) for name in ("big", "little"))
    return "big" if big < little else "little"


def kept(prefix: Path) -> list[bytes]:
    """Return the records of whole transactions, without what was abandoned: the shortest reading."""
    whole: list[bytes] = []
    unfinished: list[bytes] = []
    for path in sorted(prefix.parent.glob(f"{prefix.name}0*")):
        for record in records(body(path)):
            io_type, indicator = record[14], record[36]
            if io_type == ABEND:
                assert unfinished, "nothing was open to be abandoned"
                unfinished = []
            elif io_type == OK:
                assert not unfinished, "something open was not abandoned"
            elif io_type != METADATA:
                unfinished.append(record)
                if indicator >= 2:
                    whole += unfinished
                    unfinished = []
    assert not unfinished
    return whole


def expected(source: Sequence[Transaction], options: AppendOptions) -> list[bytes]:
    """Return the records of a run without a crash."""
    tables = Definitions(tuple(map(complete_table, DEFINITIONS)))
    batch = changes(source)
    blocks = [replace(block, table=complete_table(block.table)) for block in batch.blocks]
    encoded = encode(ChangeBatch(blocks, batch.rows), options.trail_format, tables)
    return list(records(bytes(encoded.body)))


def given(source: Sequence[Transaction], start: int, rows: int) -> Iterator[ChangeBatch]:
    """Yield the source from a transaction on, so many operations at once, borders anywhere."""
    everything = changes(source)
    begin = sum(len(transaction) for transaction in source[:start])
    order = np.arange(everything.rows)
    for place in range(begin, everything.rows, rows):
        yield everything.where((order >= place) & (order < place + rows))


def write(
    prefix: Path,
    source: Sequence[Transaction],
    options: AppendOptions,
    rows: int = 2,
    disk: Disk | None = None,
) -> Recovered:
    """Write what of the source is not there yet; commit wherever a batch ends with a transaction."""
    with TrailAppender(prefix, DEFINITIONS, options, disk=disk) as appender:
        recovered = appender.recovered
        start = int(recovered.source_position or 0)
        for batch in recovered.skip(given(source, start, rows)):
            appender.append(batch)
            last = max(batch.blocks, key=lambda block: int(block.order[-1]))
            if chr(last.tx_ind[-1]) in "EW":
                appender.commit(str(int(last.tx_id[-1].as_py()[2:]) + 1))
        return recovered


def large_source(transactions: int) -> list[Transaction]:
    """Return transactions of one to nine operations."""
    return [
        [Op("I", number, "text" * (number % 50)) for _ in range(number % 9 + 1)]
        for number in range(transactions)
    ]


if __name__ == "__main__":
    place, mode, count = sys.argv[1:]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    write(
        Path(place),
        large_source(int(count)),
        AppendOptions(recovery=Recovery[mode], max_bytes=20_000),
        rows=7,
    )
