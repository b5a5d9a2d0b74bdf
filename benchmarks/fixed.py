"""Fixed records to columns on one core, beside the naive oracle on the same records."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from benchmarks.report import Figure, Target, fastest, table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from oracles import cobol_naive as naive
from trailgate.cobol.copybook.layouts import CopybookField, CopybookLayout, Usage
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.encoding import RecordEncoder
from trailgate.cobol.records.frame_encoding import encode_frames
from trailgate.cobol.records.framing import FrameKind, Framing, find_frames
from trailgate.cobol.records.record_bytes import RecordBytes, records_of_length
from trailgate.mainframe.files.record_files import RecordSplit, SplitSearch
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.reading import read_copybook_split

BYTES: Final = 500 << 20  # what is decoded, from records that are repeated
SAMPLE_ROWS: Final = 5_000
NAIVE_ROWS: Final = 300
PER_NAIVE: Final = Target(20)
FIELDS: Final = (1_000, 10_000)
PER_TASK: Final = Target(1.5)  # of two processes on two cores
LINEAR: Final = Target(3, at_most=True)  # of quadratic cost it would be 10

# The shape of a shop's daily sales: 27 bytes, a text and five packed numbers.
SALES: Final = """
01 SALES.
   05 ARTICLE     PIC X(8).
   05 SHOP        PIC S9(3) COMP-3.
   05 SOLD-ON     PIC S9(7) COMP-3.
   05 DEPARTMENT  PIC S9(3) COMP-3.
   05 PIECES      PIC S9(9) COMP-3.
   05 PRICE       PIC S9(9)V99 COMP-3.
"""
# Ten fields of 73 bytes in all, seventeen times: 170 fields.
KINDS: Final = (
    *("PIC X(10)", "PIC X(24)", "PIC 9(5)", "PIC S9(7)V99", "PIC S9(9)V99 COMP-3"),
    *("PIC S9(5) COMP-3", "PIC S9(9) COMP", "PIC S9(4) COMP", "PIC S9(15)V99 COMP-3", "PIC X"),
)


def mixed() -> str:
    """Return a copybook of 170 fields of ten kinds in 1,300 bytes."""
    lines = [f"   05 F-{i} {KINDS[i % len(KINDS)]}." for i in range(170)]
    return "\n".join(["01 MIXED.", *lines, "   05 FILLER PIC X(59)."])


def strings() -> str:
    """Return a copybook of nothing but text: 12 fields, 240 bytes."""
    sizes = (2, 4, 8, 10, 16, 20, 20, 20, 30, 30, 40, 40)
    lines = [f"   05 T-{i} PIC X({size})." for i, size in enumerate(sizes)]
    return "\n".join(["01 TEXTS.", *lines])


def column(field: CopybookField, rows: int, draw: np.random.Generator) -> pa.Array:
    """Return values for a field: words, or numbers of up to its digits."""
    if field.usage is Usage.TEXT:
        lengths = draw.integers(0, field.size + 1, rows)
        return pa.array(["ABCDEFGHIJKLMNOPQRSTUVWXYZ 01234567890123456789"[:n] for n in lengths])
    number = field.number
    assert number is not None
    most = 10 ** min(number.digits, 18) - 1
    units = pa.array(draw.integers(-most if number.signed else 0, most, rows))
    if not number.scale:
        return units
    kind = pa.decimal128(38, number.scale)
    return pa.array([naive.scaled(u, number) for u in units.to_pylist()], kind)


def sample(layout: CopybookLayout, rows: int) -> RecordBytes:
    """Return records with values in all fields."""
    draw = np.random.default_rng(11)
    fields = [f for f in layout.root.children if not f.filler]
    return RecordEncoder(layout).encode({f.name: column(f, rows, draw) for f in fields})


def figures(name: str, copybook: str, total: int) -> list[Figure]:
    """Return the rate of records and of bytes for a layout."""
    (layout,) = read_copybook(copybook)
    decoder = RecordDecoder(layout)
    few = sample(layout, SAMPLE_ROWS)
    data: npt.NDArray[np.uint8] = np.tile(few.data, max(1, total // len(few.data)))
    records = records_of_length(data, layout.size)
    raws = [few.data[a:b].tobytes() for a, b in zip(few.starts, few.ends, strict=True)]

    def decode() -> object:
        return [batch.num_rows for batch in decoder.batches(records)]

    def errors_one_by_one() -> object:
        how = naive.Reading()
        return [naive.read_record(layout, raw, how) for raw in raws[:NAIVE_ROWS]]

    seconds, slow = fastest(decode, 3), fastest(errors_one_by_one, 3)
    rate, beside = len(records) / seconds / 1e6, NAIVE_ROWS / slow / 1e6
    copied = len(data) / fastest(data.copy, 3) / 1e6
    return [
        Figure(
            name=name,
            figure=rate,
            unit="M records/s",
            yardstick="naive oracle",
            yardstick_figure=beside,
            target=PER_NAIVE,
        ),
        Figure(name, len(data) / seconds / 1e6, "MB/s", "memory copy", copied),
    ]


def framing(total: int) -> list[Figure]:
    """Return how fast records with descriptor words are written, and found again."""
    (layout,) = read_copybook(SALES)
    few = sample(layout, SAMPLE_ROWS)
    how = Framing(FrameKind.RDW)
    data = np.tile(encode_frames(few, how), max(1, total // len(few.data)))
    finding = fastest(lambda: find_frames(data, how, finish=True), 3)
    writing = fastest(lambda: encode_frames(few, how), 3)
    copied = len(data) / fastest(data.copy, 3) / 1e6
    return [
        Figure("RDW found", len(data) / finding / 1e6, "MB/s", "memory copy", copied),
        Figure("RDW written", len(few.data) / writing / 1e6, "MB/s", "memory copy", copied),
    ]


def tasks(total: int) -> list[Figure]:
    """Return how fast a file of records with RDW is read in two processes, beside one, and how long its splits take to find."""
    (layout,) = read_copybook(mixed())
    few = encode_frames(sample(layout, SAMPLE_ROWS), Framing(FrameKind.RDW))
    context = get_context("spawn")
    with TemporaryDirectory() as folder, ProcessPoolExecutor(2, context) as processes:
        path = Path(folder) / "data"
        path.write_bytes(np.tile(few, max(1, total // len(few))).tobytes())
        size = path.stat().st_size
        named = {"copybook_text": mixed(), "record_format": "V"}
        one = CopybookOptions.of({**named, "split_bytes": size})
        two = CopybookOptions.of({**named, "split_bytes": -(-size // 2)})

        def read(options: CopybookOptions) -> int:
            splits = options.splits(str(path))
            return sum(processes.map(_count, splits, [options] * len(splits)))

        assert read(one) == read(two)  # and compiled in both processes
        alone, together = fastest(lambda: read(one), 3), fastest(lambda: read(two), 3)
        by_words = fastest(lambda: two.splits(str(path)), 3)
        index = replace(two, search=SplitSearch.INDEX)
        by_index = fastest(lambda: index.splits(str(path)), 3)
    rate = size / 1e6
    return [
        Figure(
            name="RDW file in two tasks",
            figure=rate / together,
            unit="MB/s",
            yardstick="one task",
            yardstick_figure=rate / alone,
            target=PER_TASK,
        ),
        Figure("its splits by words", by_words * 1e3, "ms", "by an index", by_index * 1e3),
    ]


def _count(split: RecordSplit, options: CopybookOptions) -> int:
    return sum(batch.num_rows for batch in read_copybook_split(split, options, options.decoder()))


def many_fields() -> list[Figure]:
    """Return how long three records of 10,000 named fields take, beside ten times those of 1,000."""
    layouts = [_wide(fields) for fields in FIELDS]
    seconds = [fastest(lambda layout=layout: _decode_few(layout), 3) for layout in layouts]
    beside = seconds[0] * FIELDS[1] / FIELDS[0]
    return [
        Figure(
            name="10,000 named fields",
            figure=seconds[1],
            unit="s",
            yardstick="10 x 1,000",
            yardstick_figure=beside,
            target=LINEAR,
        )
    ]


def _wide(fields: int) -> CopybookLayout:
    lines = [f"   05 F-{i} PIC 9(5)." for i in range(fields)]
    (layout,) = read_copybook("\n".join(["01 R.", *lines]))
    return layout


def _decode_few(layout: CopybookLayout) -> object:
    data = np.full(3 * layout.size, 0xF1, np.uint8)
    return RecordDecoder(layout).decode(records_of_length(data, layout.size))


LAYOUTS: Final[tuple[tuple[str, Callable[[], str]], ...]] = (
    ("27 bytes, packed", lambda: SALES),
    ("1,300 bytes, 170 mixed fields", mixed),
    ("240 bytes, text", strings),
)


def run(*, quick: bool) -> list[Figure]:
    """Return the figures of all layouts."""
    total = BYTES // 10 if quick else BYTES
    decoded = [f for name, copybook in LAYOUTS for f in figures(name, copybook(), total)]
    return [*decoded, *framing(total), *tasks(total), *many_fields()]


if __name__ == "__main__":
    print(table(run(quick="--quick" in sys.argv)))
