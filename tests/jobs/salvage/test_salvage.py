"""Salvage: what is whole is saved byte for byte, what is left out is listed, nothing is written over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damaged_trails import (
    FIRST,
    LAST,
    MIDDLE,
    ONLY,
    by_index,
    change,
    metadata,
    sample,
    transaction,
    write_files,
)
from laws import examples
from trailgate.arrays import octets
from trailgate.errors import OptionError, StorageError, TrailgateError
from trailgate.jobs.salvage import salvage
from trailgate.jobs.trail_check import check_trail
from trailgate.storage.files.trail_files import find_single_file
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.framing import find_records
from trailgate.trail.records.record import TrailRecord, encode_record


def body(path: Path) -> list[bytes]:
    """Return the records of a file."""
    with TrailFileReader(find_single_file(str(path))) as reader:
        data = reader.read(reader.begin, reader.file.size)
        order = reader.order
    records = find_records(octets(data), order=order, finish=True)
    return [
        data[at : at + length].tobytes()
        for at, length in zip(records.offsets.tolist(), records.lengths.tolist(), strict=True)
    ]


def encoded(records: list[TrailRecord]) -> list[bytes]:
    return [encode_record(record) for record in records]


def left_out(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(f"{out}.left-out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize("order", ByteOrder)
def test_a_whole_trail_is_saved_whole(tmp_path: Path, order: ByteOrder, headers: bool) -> None:
    files = sample(order)
    paths = write_files(tmp_path / "ot", files, headers=headers)

    salvaged = salvage(str(tmp_path / "ot"), str(tmp_path / "new"))

    abandoned = files[1][7:9]
    files[1] = files[1][:7] + files[1][9:]
    for path, records in zip(paths, files, strict=True):
        assert body(tmp_path / path.name.replace("ot", "new")) == encoded(records)
    assert salvaged.skipped_parts == 1
    assert salvaged.skipped_bytes == sum(map(len, encoded(abandoned)))
    assert salvaged.transactions == 10
    report = check_trail(str(tmp_path / "new"))
    assert report.findings == ()
    assert sum(file.operations for file in report.files) == salvaged.operations


def test_skipped_parts_are_listed_with_the_reason(tmp_path: Path) -> None:
    records = [*transaction(0, 1), *transaction(1, 3), *transaction(2, 2)]
    (path,) = write_files(tmp_path / "ot", [records])
    parts = encoded(records)
    begin = path.stat().st_size - sum(map(len, parts))
    parts[2] = parts[2][:-1] + b"X"
    path.write_bytes(path.read_bytes()[:begin] + b"".join(parts))

    salvaged = salvage(str(path), str(tmp_path / "new"))

    assert not salvaged.report.whole
    assert body(tmp_path / "new000000000") == [parts[0], *parts[4:]]
    one, two, three = left_out(tmp_path / "new")
    assert one == {
        "file": path.name,
        "offset": begin + len(parts[0]),
        "length": len(parts[1]),
        "reason": "damage inside the transaction",
        "transaction": "tx1",
    }
    assert (two["offset"], two["length"]) == (begin + len(parts[0] + parts[1]), len(parts[2]))
    assert three["reason"] == "the beginning of the record's transaction is missing"


def test_half_a_transaction_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    """An end in the middle, as a flipped TransInd makes it, leaves a part that looks whole."""
    records = [*transaction(0, 1), change(1, FIRST), change(1, LAST), change(1, LAST)]
    write_files(tmp_path / "ot", [[*records, change(2, ONLY)]])

    salvage(str(tmp_path / "ot"), str(tmp_path / "new"))

    assert body(tmp_path / "new000000000") == encoded([records[0], change(2, ONLY)])


def test_a_file_cut_between_records_does_not_join_two_transactions(tmp_path: Path) -> None:
    records = [[change(0, ONLY), *transaction(1, 3)], [change(2, MIDDLE), change(2, LAST)]]
    paths = write_files(tmp_path / "ot", [*records, [change(3, ONLY)]])
    last = encode_record(records[0][-1])
    paths[0].write_bytes(paths[0].read_bytes()[: -len(last)])

    salvage(str(tmp_path / "ot"), str(tmp_path / "new"))

    assert body(tmp_path / "new000000000") == encoded([change(0, ONLY)])
    assert body(tmp_path / "new000000001") == []
    assert body(tmp_path / "new000000002") == encoded([change(3, ONLY)])


def test_metadata_stay_when_the_transaction_around_them_goes(tmp_path: Path) -> None:
    told = metadata(1)
    records = [
        change(0, FIRST),
        told,
        change(0, MIDDLE),
        by_index(change(1, ONLY), 1),
        change(2, ONLY),
    ]
    write_files(tmp_path / "ot", [records])

    salvage(str(tmp_path / "ot"), str(tmp_path / "new"))

    assert body(tmp_path / "new000000000") == encoded([told, *records[3:]])


def test_a_reference_behind_lost_metadata_is_not_trusted(tmp_path: Path) -> None:
    """It takes the next index, which is another one where a definition is missing in front."""
    records = [metadata(1), metadata(2), metadata(3, of=1), by_index(change(0, ONLY), 3)]
    (path,) = write_files(tmp_path / "ot", [[*records, change(1, ONLY)]])
    whole = path.read_bytes()
    second = encode_record(records[1])
    at = whole.index(second)
    path.write_bytes(whole[: at + 1] + b"\xee" + whole[at + 2 :])

    salvage(str(tmp_path / "ot"), str(tmp_path / "new"))

    assert body(tmp_path / "new000000000") == encoded([records[0], change(1, ONLY)])


def test_saved_operations_are_read(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "ot", [transaction(i, 3) for i in range(4)])
    paths[1].write_bytes(paths[1].read_bytes()[:-3])
    paths[2].unlink()

    salvage(str(tmp_path / "ot"), str(tmp_path / "new"))
    rows = [row for batch in read_trail(str(tmp_path / "new")) for row in batch.to_pylist()]

    assert [row["tx_id"] for row in rows] == ["tx0"] * 3 + ["tx3"] * 3
    assert [row["tx_ind"] for row in rows] == ["B", "M", "E"] * 2


@pytest.mark.parametrize("there", ["new000000000", "new.def", "new.manifest.json"])
def test_nothing_is_written_over(tmp_path: Path, there: str) -> None:
    write_files(tmp_path / "ot", sample())
    (tmp_path / there).write_text("mine")

    with pytest.raises(StorageError, match="not overwritten"):
        salvage(str(tmp_path / "ot"), str(tmp_path / "new"))

    assert (tmp_path / there).read_text() == "mine"
    assert {path.name for path in tmp_path.glob("*new*")} <= {there, ".new.lock"}


def test_the_trail_itself_is_not_written_over(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "ot", sample())
    before = [path.read_bytes() for path in paths]

    with pytest.raises(StorageError, match="not overwritten"):
        salvage(str(tmp_path / "ot"), str(tmp_path / "ot"))

    assert [path.read_bytes() for path in paths] == before


def test_a_target_must_be_a_local_prefix(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is not a prefix"):
        salvage(str(tmp_path / "ot"), "s3://bucket/new")


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    kind = st.sampled_from(("flip", "cut", "twice", "drop"))
    return draw(
        st.lists(
            st.tuples(kind, st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=3
        )
    )


def damaged(data: bytes, how: list[tuple[str, int, int]]) -> bytes:
    for kind, where, what in how:
        if not data:
            break
        at = where % len(data)
        if kind == "flip":
            data = data[:at] + bytes((data[at] ^ what,)) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "twice":
            data = data[: at + what] + data[at:]
        else:
            data = data[:at] + data[at + what :]
    return data


@given(
    st.sampled_from(list(ByteOrder)),
    st.booleans(),
    st.integers(0, 2),
    damages(),
    st.sampled_from((300, 1000, 4 << 20)),
)
@settings(max_examples=examples(50))
def test_the_salvage_of_any_damaged_trail_checks_clean(
    tmp_path_factory: pytest.TempPathFactory,
    order: ByteOrder,
    headers: bool,
    number: int,
    how: list[tuple[str, int, int]],
    chunk: int,
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    paths = write_files(folder / "ot", sample(order), headers=headers)
    paths[number].write_bytes(damaged(paths[number].read_bytes(), how))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trailgate.jobs.check_steps.CHUNK", chunk)
        salvage(str(folder / "ot"), str(folder / "new"))

    report = check_trail(str(folder / "new"))
    assert report.whole, report.findings
    try:
        for batch in read_trail(str(folder / "new")):
            assert batch.num_rows
    except TrailgateError:
        pass  # a value, which is not looked at
