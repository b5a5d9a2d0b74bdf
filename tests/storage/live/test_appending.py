"""A live trail: what readers see, what commit promises, what is refused."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from failing_disk import FailingDisk, KilledError
from live_source import body, given, records, write
from sample_trail import DEFINITIONS, NOTES, ORDERS, Op, changes, write_trail
from trailgate.errors import (
    DefinitionError,
    EncodeError,
    OptionError,
    StorageError,
    TransactionError,
)
from trailgate.jobs.capture.plan import CaptureOptions
from trailgate.model.operations_table import to_operations
from trailgate.model.tables import Column, Definitions
from trailgate.storage.files import durable
from trailgate.storage.files.trail_files import TrailFile
from trailgate.storage.live import recovery
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.live.checkpoint import TransactionMark, read_checkpoint
from trailgate.storage.live.growing_file import Disk, GrowingFile
from trailgate.storage.live.live_trail import AppendOptions, Recovery
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.storage.reading.trails import read_trail
from trailgate.storage.writing.run_preparation import check_appendable
from trailgate.storage.writing.trail_location import local_trail
from trailgate.trail.format.file_header import FileHeader
from trailgate.trail.format.record_types import IO_RESTART_ABEND, IO_RESTART_OK
from trailgate.trail.records.record import decode_record
from trailgate.trail.writing.trail_format import TrailFormat
from trailgate.trail.writing.writer import encode_restart_record

SOURCE = [
    [Op("I", 1)],
    [Op("I", 2), Op("U", 2, "new", "old"), Op("D", 2), Op("I", 3, None, table=NOTES)],
    [Op("I", 4), Op("I", 5)],
]
SMALL = AppendOptions(max_bytes=1)  # a file takes one operation


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "ot"


def seen(prefix: Path) -> list[dict[str, Any]]:
    """Return the operations that a reader finds, without their places."""
    rows = [row for batch in read_trail(prefix) for row in batch.to_pylist()]
    return [{**row, "position": None} for row in rows]


def header(prefix: Path, number: int) -> FileHeader:
    path = Path(f"{prefix}{number:09}")
    with TrailFileReader(TrailFile(str(path), number, path.stat().st_size)) as reader:
        assert reader.header is not None
        return reader.header


def types(prefix: Path) -> list[int]:
    files = sorted(prefix.parent.glob("ot0*"))
    return [decode_record(record).io_type for path in files for record in records(body(path))]


def test_appended_operations_are_readable_at_once(prefix: Path) -> None:
    with TrailAppender(prefix, DEFINITIONS) as appender:
        appender.append(changes(SOURCE))

        assert len(seen(prefix)) == 7


def test_rows_of_the_operations_table_are_taken(prefix: Path, tmp_path: Path) -> None:
    with TrailAppender(prefix, DEFINITIONS) as appender:
        appender.append_operations(to_operations(changes(SOURCE)))
    with TrailAppender(tmp_path / "zz", DEFINITIONS) as appender:
        appender.append(changes(SOURCE))

    assert seen(prefix) == seen(tmp_path / "zz")


def test_a_header_gets_the_first_csn_and_time_with_the_first_records(prefix: Path) -> None:
    file = GrowingFile(Disk(), str(prefix), 9, FileHeader())
    one, two = (TransactionMark("tx", csn=str(csn), io_time=csn * 1000) for csn in (5, 6))
    file.begin(None)
    assert header(prefix, 0).trail.first_csn is None
    file.write(b"", (one, two))
    assert (header(prefix, 0).trail.first_csn, header(prefix, 0).trail.first_io_time) == ("5", 5000)
    file.finish()

    trail = header(prefix, 0).trail
    assert (trail.first_csn, trail.first_io_time) == ("5", 5000)
    assert (trail.last_csn, trail.last_io_time) == ("6", 6000)


def test_a_new_files_name_lasts_before_its_bytes_are_promised(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(durable, "sync_folder", synced.append)
    file = Disk().open(prefix)
    try:
        file.write(0, b"bytes")
        assert not synced
        file.sync()
        assert synced == [prefix.parent]
        file.sync()
        assert synced == [prefix.parent]  # the name lasts already
    finally:
        file.close()


def test_a_full_file_is_closed_by_filling_in_its_header(prefix: Path) -> None:
    write(prefix, SOURCE, SMALL)
    first, last = header(prefix, 0).trail, header(prefix, 6).trail

    assert first.file_size == Path(f"{prefix}000000000").stat().st_size
    assert (first.first_csn, first.last_csn) == ("1000", "1000")
    assert first.last_io_time is not None
    assert (last.seqno, last.file_size, last.last_csn) == (6, None, None)
    assert last.first_csn == "1002"


def test_the_checkpoint_is_where_the_last_commit_was(prefix: Path) -> None:
    write(prefix, SOURCE, SMALL)
    known = read_checkpoint(str(prefix))

    assert known is not None
    assert (known.source_position, known.file) == ("3", 6)
    assert known.offset == Path(f"{prefix}000000006").stat().st_size
    assert known.last is not None
    assert (known.last.tx_id, known.last.csn) == ("tx2", "1002")


def test_a_start_behind_a_clean_end_writes_restart_ok(prefix: Path) -> None:
    write(prefix, SOURCE, AppendOptions())
    before = seen(prefix)
    recovered = write(prefix, SOURCE, AppendOptions())

    assert (recovered.source_position, recovered.transactions) == ("3", 0)
    assert not recovered.abandoned
    assert types(prefix)[-1] == IO_RESTART_OK
    assert seen(prefix) == before


def test_a_start_behind_an_open_transaction_writes_restart_abend(prefix: Path) -> None:
    with TrailAppender(prefix, DEFINITIONS) as appender:
        for batch in given(SOURCE, 0, 3):
            appender.append(batch)
            break
    recovered = write(prefix, SOURCE, AppendOptions())

    assert recovered.abandoned
    assert recovered.source_position is None
    assert recovered.transactions == 1
    assert recovered.last is not None
    assert recovered.last.tx_id == "tx0"
    assert IO_RESTART_ABEND in types(prefix)


@pytest.mark.parametrize("new_file", [False, True])
@pytest.mark.parametrize("size", [1, 1900, 10_000])
def test_readers_leave_out_what_was_abandoned(prefix: Path, size: int, *, new_file: bool) -> None:
    options = AppendOptions(max_bytes=size, new_file=new_file)
    with TrailAppender(prefix, DEFINITIONS, options) as appender:
        for batch in given(SOURCE[:2], 0, 3):
            appender.append(batch)
            break
    write(prefix, SOURCE, options)
    write(prefix.with_name("whole"), SOURCE, AppendOptions())

    assert seen(prefix) == seen(prefix.with_name("whole"))


def test_a_start_behind_a_clean_end_discards_nothing(
    prefix: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for recovery_mode in Recovery:
        own = prefix.with_name(recovery_mode.name)
        for _ in range(2):
            write(own, SOURCE, AppendOptions(recovery=recovery_mode))
    assert not caplog.text


def test_a_torn_record_is_cut_off(prefix: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(prefix, SOURCE, AppendOptions())
    path = Path(f"{prefix}000000000")
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"G\x01\x00\x90H")
    write(prefix, SOURCE, AppendOptions())

    assert f"{path}, byte {size}: the last 5 bytes are discarded" in caplog.text
    assert body(path)[size - path.stat().st_size :][:2] == b"G\x01"
    assert types(prefix)[-1] == IO_RESTART_OK


def test_overwrite_mode_cuts_back_to_the_checkpoint(
    prefix: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = replace(SMALL, recovery=Recovery.OVERWRITE)
    write(prefix, SOURCE[:1], options)
    before = {path.name: path.read_bytes() for path in prefix.parent.glob("ot0*")}
    with TrailAppender(prefix, None, options) as appender:
        for batch in given(SOURCE, 1, 5):
            appender.append(batch)
    size = sum(path.stat().st_size for path in prefix.parent.glob("ot0*"))
    recovered = TrailAppender(prefix, None, options)
    recovered.close()

    discarded = re.findall(r"the last (\d+) bytes are discarded", caplog.text)
    assert sum(map(len, before.values())) + sum(map(int, discarded)) == size
    assert recovered.recovered.source_position == "1"
    assert recovered.recovered.abandoned
    assert {path.name: path.read_bytes() for path in prefix.parent.glob("ot0*")} == before


def test_a_transaction_over_many_chunks_is_followed(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "CHUNK", 300)
    with TrailAppender(prefix, DEFINITIONS) as appender:
        appender.append(changes([[Op("I", 1)], [Op("I", 2)] * 40, [Op("D", 2)] * 30]))
    with TrailAppender(prefix) as appender:
        found = appender.recovered

    assert (found.transactions, found.abandoned) == (3, False)
    assert found.last is not None
    assert (found.last.tx_id, found.last.csn) == ("tx2", "1002")


def test_the_source_must_give_the_same_again(prefix: Path) -> None:
    with TrailAppender(prefix, DEFINITIONS) as appender:
        appender.append(changes(SOURCE[:2]))
    with TrailAppender(prefix) as appender:
        found = appender.recovered

    assert [batch.rows for batch in found.skip([changes(SOURCE)])] == [2]
    with pytest.raises(StorageError, match="repeated only 1 of the 2 transactions"):
        list(found.skip([changes(SOURCE[:1])]))
    with pytest.raises(StorageError, match="but the trail has"):
        list(replace(found, transactions=1).skip([changes(SOURCE)]))


def test_a_commit_inside_a_transaction_is_refused(prefix: Path) -> None:
    with TrailAppender(prefix, DEFINITIONS) as appender:
        appender.append(next(given(SOURCE, 0, 3)))

        with pytest.raises(TransactionError, match="inside a transaction"):
            appender.commit("1")


def test_a_batch_that_does_not_go_on_with_the_trail_adds_nothing(prefix: Path) -> None:
    with TrailAppender(prefix, DEFINITIONS) as appender:
        with pytest.raises(TransactionError, match="did not begin"):
            appender.append(list(given(SOURCE, 0, 2))[1])
        appender.append(next(given(SOURCE, 0, 2)))
        with pytest.raises(TransactionError, match="begins inside another one"):
            appender.append(changes(SOURCE))

        assert len(types(prefix)) == 2


def test_another_definition_of_a_table_is_refused(prefix: Path) -> None:
    other = replace(ORDERS, columns=(*ORDERS.columns, Column("MORE", 134, 8)))
    with (
        TrailAppender(prefix, Definitions((other,))) as appender,
        pytest.raises(DefinitionError, match="differs"),
    ):
        appender.append(changes(SOURCE[:1]))
    with pytest.raises(DefinitionError, match="differs"):
        TrailAppender(prefix, DEFINITIONS)


def test_a_csn_that_no_header_holds_is_refused(prefix: Path) -> None:
    batch = changes(SOURCE[:1])
    long = replace(batch.blocks[0], csn=pa.array(["9" * 129]))
    with (
        TrailAppender(prefix, DEFINITIONS) as appender,
        pytest.raises(EncodeError, match="a CSN has 129 bytes"),
    ):
        appender.append(replace(batch, blocks=[long]))


def test_two_writers_are_kept_apart(prefix: Path) -> None:
    with (
        TrailAppender(prefix, DEFINITIONS),
        pytest.raises(StorageError, match="another run is writing"),
    ):
        TrailAppender(prefix)
    TrailAppender(prefix).close()


def test_a_writer_that_failed_must_be_opened_again(prefix: Path) -> None:
    disk = FailingDisk(5)  # behind two files written whole, the begun one is noted and opened
    with TrailAppender(prefix, DEFINITIONS, disk=disk) as appender:
        with pytest.raises(KilledError):
            appender.append(changes(SOURCE))

        with pytest.raises(StorageError, match="open the trail again"):
            appender.commit("1")


def test_a_full_disk_is_a_storage_error(prefix: Path) -> None:
    prefix.mkdir()
    with TrailAppender(prefix / "ot", DEFINITIONS) as appender:
        Path(prefix / "ot000000000").mkdir()
        with pytest.raises(StorageError, match="cannot write"):
            appender.append(changes(SOURCE))


def test_trails_of_others_are_refused(prefix: Path) -> None:
    write_trail(prefix, [SOURCE])
    with pytest.raises(StorageError, match="no checkpoint"):
        TrailAppender(prefix, DEFINITIONS)
    Path(f"{prefix}.manifest.json").write_text(json.dumps({"files": []}))
    with pytest.raises(StorageError, match="has a manifest"):
        TrailAppender(prefix, DEFINITIONS)


def test_a_live_trail_is_not_captured_into(prefix: Path) -> None:
    TrailAppender(prefix, DEFINITIONS).close()

    with pytest.raises(StorageError, match="has no manifest"):
        check_appendable(local_trail(str(prefix)), None, CaptureOptions())


@pytest.mark.parametrize("mode", list(Recovery))
def test_a_file_that_the_writer_did_not_begin_is_not_touched(prefix: Path, mode: Recovery) -> None:
    write(prefix, SOURCE, AppendOptions())
    foreign = Path(f"{prefix}000000001")
    foreign.write_bytes(b"mine")

    with pytest.raises(StorageError, match="does not include file ot000000001"):
        TrailAppender(prefix, None, AppendOptions(mode))
    assert foreign.read_bytes() == b"mine"


def test_a_trail_shorter_than_its_checkpoint_is_an_error(prefix: Path) -> None:
    write(prefix, SOURCE, AppendOptions())
    path = Path(f"{prefix}000000000")
    size = path.stat().st_size
    os.truncate(path, size - 1)

    problem = f"has {size - 1} bytes, but the checkpoint states {size} .*trailgate check {prefix}"
    with pytest.raises(StorageError, match=problem) as caught:
        TrailAppender(prefix)
    assert caught.value.where.source == str(path)

    path.unlink()
    with pytest.raises(StorageError, match=f"is missing, but the checkpoint states {size} bytes"):
        TrailAppender(prefix)


@pytest.mark.parametrize("mode", list(Recovery))
def test_a_trail_with_another_last_file_than_the_checkpoints_is_an_error(
    prefix: Path, mode: Recovery
) -> None:
    """Otherwise its committed bytes would be discarded, as if an interrupted run had left them."""
    options = AppendOptions(mode, max_bytes=1)  # a file takes one operation
    write(prefix, SOURCE, options)
    other = prefix.parent / "other" / "ot"
    other.parent.mkdir()
    write(other, [[Op("I", 8, "a" * 60)], *SOURCE[1:], [Op("I", 9, "b" * 60)]], options)
    last = max(prefix.parent.glob("ot0*"))
    right = last.read_bytes()
    for content, problem in {
        Path(f"{prefix}000000000").read_bytes().ljust(len(right)): "the header states file number 0, but the name 6",
        Path(f"{other}{last.name[2:]}").read_bytes().ljust(len(right)): "no record ends at|is 1003, but the checkpoint states 1002",
        right[:-4] + bytes(4): "the committed bytes are damaged: the record's trailer",
        bytes(len(right)): "the committed bytes are damaged: a file header must begin with 46",
    }.items():  # fmt: skip
        last.write_bytes(content)
        with pytest.raises(StorageError, match=problem) as caught:
            TrailAppender(prefix, None, options)
        assert caught.value.where.source == str(last)
        assert last.read_bytes() == content

    last.write_bytes(right)
    TrailAppender(prefix, None, options).close()


def test_a_trail_of_as_many_bytes_with_another_last_transaction_is_an_error(prefix: Path) -> None:
    write(prefix, SOURCE, AppendOptions())
    checkpoint = Path(f"{prefix}.checkpoint.json")
    checkpoint.write_text(checkpoint.read_text().replace('"1002"', '"1003"'))
    with pytest.raises(StorageError, match="is 1002, but the checkpoint states 1003"):
        TrailAppender(prefix)


def test_a_checkpoint_that_cannot_be_read_is_an_error(prefix: Path) -> None:
    write(prefix, SOURCE, AppendOptions())
    Path(f"{prefix}.checkpoint.json").write_text("{")

    with pytest.raises(StorageError, match="cannot be understood"):
        TrailAppender(prefix)


def test_options_that_do_not_go_together_are_refused(prefix: Path) -> None:
    with pytest.raises(OptionError, match="only supports overwrite recovery"):
        AppendOptions(Recovery.APPEND, trail_format=TrailFormat(0))
    with pytest.raises(OptionError, match="6 or 9"):
        AppendOptions(seq_digits=7)
    write(prefix, SOURCE, AppendOptions())
    with pytest.raises(
        OptionError,
        match=r"9 digits, not 6\. Use --seq-digits 9 \(seq_digits, on Spark seqDigits\)",
    ):
        TrailAppender(prefix, None, AppendOptions(seq_digits=6))
    with pytest.raises(OptionError, match="level 0 cannot be mixed"):
        TrailAppender(prefix, None, AppendOptions(trail_format=TrailFormat(0)))


def test_another_level_begins_another_file(prefix: Path) -> None:
    write(prefix, SOURCE, AppendOptions())
    write(prefix, SOURCE, AppendOptions(trail_format=TrailFormat(4)))

    assert [header(prefix, number).trail.compatibility for number in (0, 1)] == [3, 4]
    assert header(prefix, 0).trail.file_size is not None


@pytest.mark.assumed
def test_a_restart_record_has_the_size_of_a_printed_one() -> None:
    raw = encode_restart_record("EX1", 0, abandoned=False)
    record = decode_record(raw)

    assert len(raw) == 58
    assert (record.io_type, record.trans_ind, record.record_count, record.node) == (151, 3, 0, 0)
    assert record.name == ""
    assert record.data is None


@pytest.mark.assumed
@pytest.mark.parametrize(("mode", "number"), [(Recovery.APPEND, 1), (Recovery.OVERWRITE, 0)])
def test_the_header_names_the_recovery_mode(prefix: Path, mode: Recovery, number: int) -> None:
    write(prefix, SOURCE, AppendOptions(mode))

    assert header(prefix, 0).continuity.recovery_mode == number


@pytest.mark.parametrize("release", [None, "19.1"])
def test_lost_definitions_are_announced_when_they_are_written_again(
    release: str | None, prefix: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A trail of a newer release describes its tables itself."""
    options = AppendOptions(trail_format=TrailFormat.from_options(release))
    for is_lost in (False, True, False):
        caplog.clear()
        with TrailAppender(prefix, DEFINITIONS, options) as appender:
            appender.append(changes(SOURCE[:1]))
            appender.commit("1")
        announced = [one for one in caplog.messages if "ot.def was missing" in one]
        assert len(announced) == (is_lost and release is None)
        path = Path(f"{prefix}.def")
        assert path.exists()
        if not is_lost:
            path.unlink()
