"""Reading trails: found, split, followed over files, never torn, errors placed."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laws import examples
from sample_trail import DEFINITIONS, NOTES, Op, write_trail
from trailgate.errors import OptionError, StorageError, TrailgateError, TruncatedError
from trailgate.model.changes import OPERATIONS_SCHEMA
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.splits import plan_splits
from trailgate.storage.reading.trails import read_split, read_trail

FILES = [
    [
        [Op("I", 1)],
        [Op("I", 2), Op("U", 2, "new", "old"), Op("D", 2), Op("I", 3, None, table=NOTES)],
    ],
    [[Op("I", 9, "x")], [Op("U", 9, "y", "x")], [Op("U", 9, "z", "y"), Op("U", 9, "z", "z")]],
]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return write_trail(tmp_path / "ot", FILES)


def rows(batches: object) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]  # type: ignore[attr-defined]


def kinds(batches: object) -> str:
    return "".join(str(row["op_type"]) for row in rows(batches))


def test_a_trail_is_read_in_order_over_its_files(prefix: Path) -> None:
    batches = list(read_trail(prefix))

    assert batches[0].schema == OPERATIONS_SCHEMA
    assert kinds(batches) == "IIUDIIUUU"
    positions = [str(row["position"]) for row in rows(batches)]
    assert positions == sorted(set(positions))
    assert [row["tx_ind"] for row in rows(batches)] == list("WBMMEWWBE")


def test_the_three_states_of_a_column_stay_apart(prefix: Path) -> None:
    first, _, update, delete, null, *_ = rows(read_trail(prefix))

    assert dict(first["before"] or []) == {}  # type: ignore[call-overload]
    assert dict(update["before"]) == {"ID": "2", "NAME": "old"}  # type: ignore[call-overload]
    assert dict(delete["before"]) == {"ID": "2"}  # type: ignore[call-overload]
    assert dict(null["after"]) == {"ID": "3", "TEXT": None}  # type: ignore[call-overload]


def test_one_table_comes_in_its_types(prefix: Path) -> None:
    table = pa.Table.from_batches(list(read_trail(prefix, table="my.notes")))

    assert table.column_names[:2] == ["ID", "TEXT"]
    assert table["ID"].to_pylist() == [3]
    assert table["_op_type"].to_pylist() == ["I"]


@pytest.mark.parametrize("name", ["ot", "", "ot000000000"])
def test_a_trail_is_named_by_prefix_folder_or_file(prefix: Path, name: str) -> None:
    found = find_trail(prefix.parent / name)

    assert [file.number for file in found.files] == ([0] if name.endswith("0") else [0, 1])


def test_a_trail_may_be_named_by_a_uri(prefix: Path) -> None:
    assert kinds(read_trail(f"file://{prefix}")) == "IIUDIIUUU"


def test_a_relative_path_will_do(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(prefix.parent)

    assert kinds(read_trail("ot")) == "IIUDIIUUU"


def test_six_digits_will_do(tmp_path: Path) -> None:
    assert kinds(read_trail(write_trail(tmp_path / "aa", FILES, digits=6))) == "IIUDIIUUU"


def test_limit_ends_reading(prefix: Path) -> None:
    assert kinds(read_trail(prefix, limit=3)) == "IIU"
    assert kinds(read_trail(prefix, limit=0)) == ""


def test_after_reads_what_is_behind_a_position(prefix: Path) -> None:
    everything = rows(read_trail(prefix))
    for i, row in enumerate(everything):
        assert rows(read_trail(prefix, after=str(row["position"]))) == everything[i + 1 :]


def test_a_wrong_position_is_wrong_use(prefix: Path) -> None:
    with pytest.raises(OptionError, match="not a position"):
        list(read_trail(prefix, after="12"))


def test_a_missing_file_is_an_error_that_names_the_gap(tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "ot", [*FILES, *FILES])
    (tmp_path / "ot000000001").unlink()

    with pytest.raises(StorageError, match="missing between ot000000000 and ot000000002"):
        find_trail(prefix)


def test_nothing_there_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no trail files here .*prefix"):
        find_trail(tmp_path / "ot")


def test_two_trails_in_a_folder_are_an_error(prefix: Path) -> None:
    write_trail(prefix.parent / "zz", FILES)

    with pytest.raises(StorageError, match="more than one trail in the directory: ot, zz"):
        find_trail(prefix.parent)


def test_definitions_missing_beside_the_trail_can_be_given(prefix: Path) -> None:
    moved = Path(f"{prefix}.def").rename(prefix.parent / "elsewhere")

    assert not len(find_trail(prefix).definitions)
    assert kinds(read_trail(prefix, definitions=moved)) == "IIUDIIUUU"
    assert kinds(read_trail(prefix, definitions=DEFINITIONS)) == "IIUDIIUUU"


def test_only_what_a_manifest_lists_is_read(prefix: Path) -> None:
    first = Path(f"{prefix}000000000")
    entry = {"name": first.name, "size": first.stat().st_size}
    Path(f"{prefix}.manifest.json").write_text(json.dumps({"files": [entry]}))
    with first.open("ab") as file:
        file.write(b"not published")

    assert kinds(read_trail(prefix)) == "IIUDI"


def test_a_record_that_is_being_written_is_not_there_yet(prefix: Path) -> None:
    last = Path(f"{prefix}000000001")
    last.write_bytes(last.read_bytes()[:-7])

    assert kinds(read_trail(prefix)) == "IIUDIIUU"


def test_a_file_that_is_being_begun_is_not_there_yet(prefix: Path) -> None:
    for content in (b"", Path(f"{prefix}000000001").read_bytes()[:100]):
        Path(f"{prefix}000000002").write_bytes(content)
        assert kinds(read_trail(prefix)) == "IIUDIIUUU"


def test_an_earlier_file_that_ends_inside_a_record_is_an_error(prefix: Path) -> None:
    first = Path(f"{prefix}000000000")
    first.write_bytes(first.read_bytes()[:-7])

    with pytest.raises(TruncatedError, match=r"ot000000000, byte \d+"):
        list(read_trail(prefix))


def test_a_damaged_record_is_an_error_with_its_file(prefix: Path) -> None:
    first = Path(f"{prefix}000000000")
    data = bytearray(first.read_bytes())
    data[-3] ^= 0xFF
    first.write_bytes(bytes(data))

    with pytest.raises(TrailgateError, match="ot000000000"):
        list(read_trail(prefix))


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 50, 300, 1 << 20])
def test_splits_hold_every_operation_once_and_in_order(
    tmp_path: Path, size: int, *, torn: bool
) -> None:
    prefix = write_trail(tmp_path / "ot", [*FILES, *FILES], torn=torn)
    trail = pickle.loads(pickle.dumps(find_trail(prefix)))

    parts = [rows(read_split(trail, split)) for split in plan_splits(trail, size)]

    assert [row for part in parts for row in part] == rows(read_trail(prefix))
    edges = [f"{part[0]['tx_ind']}{part[-1]['tx_ind']}" for part in parts if part]
    assert set(edges) <= {"BE", "BW", "WE", "WW"}


transactions = st.lists(st.lists(st.sampled_from("IUD"), min_size=1, max_size=6), min_size=1)


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(transactions, min_size=1, max_size=4),
    size=st.integers(40, 2000),
    torn=st.booleans(),
)
def test_how_a_trail_is_split_changes_nothing(
    tmp_path: Path, files: list[list[list[str]]], size: int, *, torn: bool
) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    made = [[[_op(kind, i) for i, kind in enumerate(tx)] for tx in file] for file in files]
    trail = find_trail(write_trail(tmp_path / "ot", made, torn=torn))

    parts = [row for split in plan_splits(trail, size) for row in rows(read_split(trail, split))]

    assert len(parts) == sum(len(tx) for file in files for tx in file)
    assert parts == rows(read_trail(trail))


def _op(kind: str, key: int) -> Op:
    return Op(kind, key, "G\x01" * (key % 5), "before" if kind == "U" and key % 2 else ...)
