"""Tasks log the messages that they skip, and no job fails because of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from held_captures import SHOP
from journal_messages import stored
from messages.test_byte_order_marks import FLAT, FORMS
from trailgate.jobs.capture.loading import load_capture
from trailgate.live.files.journal_reader import JournalIndex
from trailgate.live.files.journal_writer import Journal
from trailgate.live.jobs.journal_stream import operations_of
from trailgate.spark.message_files import read_owned_changes
from trailgate.spark.message_frames import parse_rows_of_partition
from trailgate.storage.reading.message_files import find_messages, plan_ranges


def test_rows_of_a_frame_are_counted_over_the_batches_of_a_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batches = [
        pa.RecordBatch.from_pydict({"body": bodies}) for bodies in ([FLAT, "[]"], ["[]", ""])
    ]

    found = list(parse_rows_of_partition(FORMS["JSON"].capture(), iter(batches), 7))

    assert sum(batch.rows for batch in found) == 1
    assert caplog.messages == [
        "1 message is empty and was skipped: partition 7, message 3",
        "2 messages contain only arrays without elements and were skipped: the first is partition 7, message 1",
    ]


def test_each_range_of_files_counts_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "shop.def").write_text(SHOP)
    (tmp_path / "p.properties").write_text(
        "parser.type=json\njson.sourcedefs=shop.def\njson.model=row\n"
    )
    lines = tmp_path / "in.txt"
    lines.write_text(f"[]\n{FLAT}\n[]\n[]\n")
    files = find_messages(lines, per_line=True)
    capture = load_capture(tmp_path / "p.properties", base=tmp_path)

    for part in plan_ranges(files, split_bytes=30):
        list(read_owned_changes(capture, files, part))

    counts = [int(one.partition(" ")[0]) for one in caplog.messages]
    assert sum(counts) == 3
    assert len(counts) > 1


def test_messages_of_a_journal_are_named_by_their_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Journal(tmp_path / "j") as journal:
        stored(journal, 0, [FLAT, "[]", "[]", FLAT])

    batches = operations_of(JournalIndex(tmp_path / "j").range(0, 4), FORMS["JSON"].capture())

    assert sum(batch.rows for batch in batches) == 2
    assert caplog.messages == [
        f"2 messages contain only arrays without elements and were skipped: the first is {tmp_path / 'j'}, message 1"
    ]
