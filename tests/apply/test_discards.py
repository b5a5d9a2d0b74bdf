"""What cannot be applied stops the run, or goes to a file, alone or with its transaction; once, whatever is killed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest

from apply.histories import History, Shape, write
from apply.sources import delta_rows, duckdb_rows, write_log
from apply.test_net_effects import FULL
from laws import examples
from oracles.apply_naive import Operation
from sample_trail import DEFINITIONS, NOTES, Op, changes, write_trail
from trailgate import (
    ApplyError,
    ApplyReport,
    DecodeError,
    OptionError,
    TrailgateError,
    apply_repaired,
    apply_trail,
    read_trail,
)
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.jobs.apply import ApplyRun, ThreadReading
from trailgate.apply.jobs.options import ApplyOptions, OnCollision, OnError
from trailgate.apply.targets.duckdb import DuckDBTarget
from trailgate.apply.targets.target import AppliedPosition
from trailgate.cli.main import run
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.model.changes import ChangeBatch
from trailgate.model.tables import Column
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header
from trailgate.trail.writing.writer import encode

# Of transaction 2 the update does not fit.
LOG = [
    Operation("I", 1, 1, FULL, 1),
    Operation("I", 2, 2, FULL, 2),
    Operation("U", 7, 7, {"a": 9}, 2),
    Operation("U", 1, 1, {"a": 4}, 3),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "ot", LOG)
    return tmp_path


def discards(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_operation_that_does_not_fit_stops_the_run_and_nothing_lands(place: Path) -> None:
    with pytest.raises(ApplyError, match="update of id=7: the row does not exist"):
        apply_trail("ot", "duckdb:hr.duckdb")

    with duckdb.connect("hr.duckdb") as connection:
        assert (
            connection.sql("SELECT * FROM duckdb_tables() WHERE schema_name = 'hr'").fetchall()
            == []
        )


def test_an_operation_goes_alone_with_its_reason(place: Path) -> None:
    report = apply_trail("ot", "duckdb:hr.duckdb", on_error="discard", discards="d.jsonl")

    assert report.tables["hr.t"].discarded == 1
    assert duckdb_rows(place) == {1: {**FULL, "a": 4}, 2: FULL}
    (line,) = discards(place / "d.jsonl")
    assert line["reason"] == "update of id=7: the row does not exist"
    assert (line["table"], line["op_type"], line["after"]) == ("HR.T", "U", {"ID": "7", "A": "9"})


def test_a_transaction_goes_as_a_whole(place: Path) -> None:
    report = apply_trail("ot", "duckdb:hr.duckdb", on_error="discard-transaction")

    assert report.tables["hr.t"].discarded == 2
    assert duckdb_rows(place) == {1: {**FULL, "a": 4}}
    reasons = [line["reason"] for line in discards(place / "trailgate.discards.jsonl")]
    assert reasons == [
        "another operation of its transaction cannot be applied",
        "update of id=7: the row does not exist",
    ]


@pytest.mark.parametrize("policy", ["stop", "overlay"])
@pytest.mark.parametrize("on_error", ["stop", "discard", "ignore"])
def test_operations_on_a_key_that_several_rows_have_are_refused(
    place: Path, on_error: OnError, policy: OnCollision
) -> None:
    """Also those that are followed row by row, each with its own position. The rows of the key stay."""
    log = [
        Operation("U", 2, 2, {"a": 9}, 1),
        Operation("U", 3, 3, {"a": 9}, 2),
        Operation("D", 1, 1, {}, 3),
        Operation("U", 1, 1, {"a": 4}, 4),
        Operation("K", 1, 5, {}, 5),
        Operation("K", 4, 1, {}, 6),
    ]
    write_log(place / "other", log)
    with duckdb.connect("hr.duckdb") as connection:
        connection.execute("CREATE SCHEMA hr")
        connection.execute("CREATE TABLE hr.hr.t (id BIGINT, a BIGINT, b BIGINT, c BIGINT)")
        connection.execute(
            "INSERT INTO hr.hr.t SELECT id, 0, 0, 0 FROM unnest([1, 1, 2, 3, 3, 4]) AS t(id)"
        )

    def run() -> ApplyReport:
        return apply_trail("other", "duckdb:hr.duckdb", on_error=on_error, on_collision=policy)

    positions = [
        position for batch in read_trail("other") for position in batch["position"].to_pylist()
    ]
    if on_error == "stop":
        words = rf"update of id=3: .* has 2 rows with this key \(position 0:{int(positions[1])}, .*Leave one row"
        with pytest.raises(ApplyError, match=words):
            run()
    else:
        report = run()
        assert report.tables["hr.t"].operations == 1
        assert report.reasons == {"the target's table has 2 rows with this key": 5}

    with duckdb.connect("hr.duckdb") as connection:
        found = connection.sql("SELECT id, a FROM hr.hr.t ORDER BY id").fetchall()
    changed = 0 if on_error == "stop" else 9
    assert found == [(1, 0), (1, 0), (2, changed), (3, 0), (3, 0), (4, 0)]
    if on_error == "discard":
        lines = discards(place / "trailgate.discards.jsonl")
        assert [line["position"] for line in lines] == positions[1:]


@pytest.mark.parametrize("on_error", ["discard", "discard-transaction"])
def test_operations_that_the_target_alone_refuses_are_found(place: Path, on_error: OnError) -> None:
    """A constraint of the table is not known before a row is written: batches are halved until the operation is found."""
    transactions = examples(40)
    log = [
        Operation("I", key, key, {**FULL, "a": -1 if key % 7 == 0 else 1}, 10 + key // 3)
        for key in range(100, 100 + 3 * transactions)
    ]
    write_log(place / "other", log)
    with duckdb.connect("hr.duckdb") as connection:
        connection.execute("CREATE SCHEMA hr")
        columns = "id INTEGER, a INTEGER CHECK (a >= 0), b INTEGER, c INTEGER"
        connection.execute(f"CREATE TABLE hr.hr.t ({columns})")

    with pytest.raises(ApplyError, match="DuckDB refuses"):
        apply_trail("other", "duckdb:hr.duckdb")
    report = apply_trail("other", "duckdb:hr.duckdb", on_error=on_error)

    bad = {one.transaction for one in log if one.logged["a"] < 0}
    whole = on_error == "discard-transaction"
    gone = {one.key for one in log if one.logged["a"] < 0 or (whole and one.transaction in bad)}
    assert set(duckdb_rows(place)) == {one.key for one in log} - gone
    lines = discards(place / "trailgate.discards.jsonl")
    assert {int(line["after"]["ID"]) for line in lines} == gone
    assert len(lines) == len(gone) == report.tables["hr.t"].discarded
    assert sum("CHECK constraint failed" in line["reason"] for line in lines) == len(
        [one for one in log if one.logged["a"] < 0] if not whole else bad
    )
    assert apply_trail("other", "duckdb:hr.duckdb", on_error=on_error).operations == 0


def test_a_transaction_that_needs_one_that_goes_goes_too(place: Path) -> None:
    write_log(place / "ot", [Operation("U", 2, 2, {"b": 8}, 4), Operation("D", 1, 1, {}, 5)])
    report = apply_trail("ot", "duckdb:hr.duckdb", on_error="discard-transaction")

    assert report.tables["hr.t"].discarded == 3
    assert duckdb_rows(place) == {}


def test_a_value_that_the_table_cannot_hold_is_named(place: Path) -> None:
    with duckdb.connect("hr.duckdb") as connection:
        connection.execute("CREATE SCHEMA hr.hr").fetchall()
        connection.execute(
            "CREATE TABLE hr.hr.t (id BIGINT, a TINYINT, b BIGINT, c BIGINT)"
        ).fetchall()
    write_log(place / "ot", [Operation("I", 3, 3, {**FULL, "a": 300}, 4)])
    with pytest.raises(DecodeError, match=r"int8, which cannot hold this value: 300 .*position"):
        apply_trail("ot", "duckdb:hr.duckdb", on_error="stop", on_collision="overlay")

    report = apply_trail("ot", "duckdb:hr.duckdb", on_error="discard", on_collision="overlay")

    assert report.tables["hr.t"].discarded == 1
    assert [line["after"]["A"] for line in discards(place / "trailgate.discards.jsonl")] == ["300"]


def test_a_line_that_a_killed_run_left_is_not_written_again(place: Path) -> None:
    apply_trail("ot", "delta:lake", on_error="discard", discards="d.jsonl")
    whole = (place / "d.jsonl").read_bytes()
    (place / "d.jsonl").write_bytes(whole + whole[:20])
    apply_trail("ot", "delta:other", on_error="discard", discards="d.jsonl")

    assert (place / "d.jsonl").read_bytes() == whole


def test_the_command_counts_discards(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "ot", "--to", "duckdb:hr.duckdb", "--on-error", "discard"]) == 4

    printed = capsys.readouterr().out
    assert "discarded" in printed
    assert "1 operation could not be applied: trailgate.discards.jsonl" in printed
    assert "  1: the row does not exist" in printed


def test_reasons_are_ranked(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(place / "ot", [Operation("D", key, key, {}, key) for key in (11, 12, 13)])
    write_log(place / "ot", [Operation("I", 1, 1, FULL, 20)])
    command = ["apply", "ot", "--to", "duckdb:hr.duckdb", "--on-error", "discard-transaction"]
    assert run([*command, "--json"]) == 4

    assert json.loads(capsys.readouterr().out)["reasons"] == {
        "the row does not exist": 4,
        "the row already exists": 1,
        "another operation of its transaction cannot be applied": 1,
    }


def test_repaired_operations_are_applied_and_the_position_stays(place: Path) -> None:
    apply_trail("ot", "duckdb:hr.duckdb", on_error="discard", discards="d.jsonl")
    (line,) = discards(place / "d.jsonl")
    for image in (line["before"], line["after"]):
        image["ID"] = "2"
    (place / "repaired.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(OptionError, match="--force"):
        apply_repaired("ot", "duckdb:hr.duckdb", "repaired.jsonl")
    report = apply_repaired("ot", "duckdb:hr.duckdb", "repaired.jsonl", force=True)

    assert report.operations == 1
    assert duckdb_rows(place) == {1: {**FULL, "a": 4}, 2: {**FULL, "a": 9}}
    assert apply_trail("ot", "duckdb:hr.duckdb").operations == 0
    with pytest.raises(OptionError, match="this file was already applied"):
        apply_repaired("ot", "duckdb:hr.duckdb", "repaired.jsonl", force=True)


@pytest.mark.parametrize("to", ["duckdb:hr.duckdb", "delta:lake"])
def test_rows_that_keep_their_positions_need_no_force(place: Path, to: str) -> None:
    apply_trail("ot", to, meta=True, on_error="discard", discards="d.jsonl")
    (line,) = discards(place / "d.jsonl")

    def repaired(key: str) -> str:
        own = json.loads(json.dumps(line))
        for image in (own["before"], own["after"]):
            image["ID"] = key
        (place / f"{key}.jsonl").write_text(json.dumps(own) + "\n")
        return f"{key}.jsonl"

    # Row 1 was updated after the operation that is repaired, row 2 inserted before it.
    with pytest.raises(
        ApplyError, match=r"row of id=1 may have been changed by a later operation: position 0:"
    ):
        apply_repaired("ot", to, repaired("1"), meta=True)
    with pytest.raises(OptionError, match=r"--force\. Tables with --meta"):
        apply_repaired("ot", to, repaired("2"))
    assert apply_repaired("ot", to, repaired("2"), meta=True).operations == 1
    assert apply_repaired("ot", to, repaired("1"), meta=True, force=True).operations == 1


def test_the_command_applies_repaired_operations_to_delta(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apply_trail("ot", "delta:lake", on_error="discard", discards="d.jsonl")
    text = (place / "d.jsonl").read_text().replace('"ID": "7"', '"ID": "2"')
    (place / "d.jsonl").write_text(text)
    command = ["apply", "ot", "--to", "delta:lake", "--from", "d.jsonl"]
    assert run(command) == 2
    assert run([*command, "--force"]) == 0
    assert "1 operation of d.jsonl applied: delta:lake" in capsys.readouterr().out
    assert delta_rows(place) == {1: {**FULL, "a": 4}, 2: {**FULL, "a": 9}}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[1]", "the line is not an object"),
        ("{", "the line is not an operation: Expecting"),
        ('{"op_type": "I", "sql": ""}', "an operation has no field sql"),
        ('{"op_type": "I"}', "the operation has no op_ts"),
        (
            '{"op_ts": "2026-01-01", "after": {"ID": 7}}',
            "the value of ID in after is 7, not a string",
        ),
        (
            '{"op_ts": "2026-01-01", "op_type": "X", "table": "HR.T", "after": {}}',
            "op_type is not one of",
        ),
        ('{"op_ts": "2026-01-01", "op_type": "I", "table": "HR.T", "after": {"A": "x"}}', "line 2"),
    ],
)
def test_a_line_that_is_no_operation_is_named(place: Path, line: str, problem: str) -> None:
    (place / "d.jsonl").write_text(f"\n{line}\n")
    with pytest.raises(TrailgateError, match=problem) as found:
        apply_repaired("ot", "duckdb:hr.duckdb", "d.jsonl", force=True)
    assert "d.jsonl" in str(found.value)


def test_lines_that_were_edited_stay(place: Path) -> None:
    """An editor may leave no line end after the last line, and blank lines between others."""
    apply_trail("ot", "duckdb:hr.duckdb", on_error="discard", discards="d.jsonl")
    edited = b"\n" + (place / "d.jsonl").read_bytes().replace(b'"ID": "7"', b'"ID": "2"').rstrip()
    (place / "d.jsonl").write_bytes(edited)
    write_log(place / "ot", [Operation("D", 11, 11, {}, 20)])
    apply_trail("ot", "duckdb:hr.duckdb", on_error="discard", discards="d.jsonl")

    content = (place / "d.jsonl").read_bytes()
    assert content.startswith(edited + b"\n")
    assert [json.loads(line)["op_type"] for line in content.splitlines() if line] == ["U", "D"]


@pytest.mark.parametrize(
    "content", [b"REPLICAT rep\nMAP hr.t, TARGET hr.t;", b"\x00\x01\n\xff", b"[1]\n"]
)
def test_nothing_is_added_to_a_file_of_something_else(place: Path, content: bytes) -> None:
    (place / "rep.prm").write_bytes(content)
    with pytest.raises(OptionError, match=r"not a discard file.*rep\.prm, line \d.*--discards"):
        apply_trail("ot", "duckdb:hr.duckdb", on_error="discard", discards="rep.prm")
    assert (place / "rep.prm").read_bytes() == content


@pytest.mark.parametrize(("before", "number"), [(b"", 1), (b"\n", 2), (b"\n\n", 3)])
@pytest.mark.parametrize("after", [b"", b"\n"])
def test_a_damaged_line_is_named_by_its_number(
    before: bytes, number: int, after: bytes, place: Path
) -> None:
    (place / "d.jsonl").write_bytes(before + b"[1]" + after)
    with pytest.raises(OptionError, match=rf"d\.jsonl, line {number}\)"):
        apply_trail("ot", "duckdb:hr.duckdb", on_error="discard", discards="d.jsonl")


def test_an_operation_of_another_trail_at_the_same_position_is_not_lost(place: Path) -> None:
    apply_trail("ot", "duckdb:hr.duckdb", on_error="discard", discards="d.jsonl")
    other = [
        one._replace(logged={"a": 8}) if one.kind == "U" and one.key == 7 else one for one in LOG
    ]
    write_log(place / "other", other)
    apply_trail("other", "duckdb:other.duckdb", on_error="discard", discards="d.jsonl")
    assert [line["after"]["A"] for line in discards(place / "d.jsonl")] == ["9", "8"]


def test_a_repaired_line_needs_no_position(place: Path) -> None:
    apply_trail("ot", "duckdb:hr.duckdb", on_error="discard", discards="d.jsonl")
    (line,) = discards(place / "d.jsonl")
    for number, key in enumerate(("1", "2")):
        own = {name: value for name, value in line.items() if name not in ("position", "reason")}
        own["before"], own["after"] = {"ID": key}, {"ID": key, "A": "5"}
        (place / f"{number}.jsonl").write_text(json.dumps(own))
        apply_repaired("ot", "duckdb:hr.duckdb", f"{number}.jsonl", force=True)
    assert {row["a"] for row in duckdb_rows(place).values()} == {5}


def test_repairs_that_cannot_be_right_are_refused(place: Path) -> None:
    apply_trail("ot", "duckdb:hr.duckdb", on_error="discard", discards="d.jsonl")
    with pytest.raises(OptionError, match="cannot be applied with --mode history"):
        apply_repaired("ot", "duckdb:x.duckdb", "d.jsonl", force=True, mode="history")
    with pytest.raises(OptionError, match=r"to the file that is being read.*--discards"):
        apply_repaired(
            "ot", "duckdb:hr.duckdb", "d.jsonl", force=True, on_error="discard", discards="d.jsonl"
        )


def test_a_value_before_an_update_need_not_fit(place: Path) -> None:
    """The table gets nothing of it: the row has another value, since the update before was discarded."""
    log = [
        Operation("I", 1, 1, {**FULL, "a": 1}, 1),
        Operation("U", 1, 1, {"a": 300}, 2),
        Operation(
            kind="U", old=1, key=1, logged={"a": 2}, transaction=3, table="", earlier={"a": 300}
        ),
        Operation("I", 2, 2, {**FULL, "a": 1}, 4),
        Operation(kind="D", old=2, key=2, logged={}, transaction=5, table="", earlier={"a": 300}),
    ]
    write_log(place / "narrow", log)
    report = apply_trail(
        "narrow", "duckdb:hr.duckdb", on_error="discard", column=["HR.T.A=decimal(2,0)"]
    )
    assert (
        report.tables["hr.t"].discarded,
        set(duckdb_rows(place)),
        duckdb_rows(place)[1]["a"],
    ) == (1, {1}, 2)


@pytest.mark.parametrize("on_error", ["discard", "discard-transaction", "ignore"])
def test_all_values_of_a_batch_that_a_type_refuses_are_found_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_error: OnError
) -> None:
    monkeypatch.chdir(tmp_path)
    shape = Shape(
        (Column("ID", 134, 8, key=True),),
        tuple((one,) for one in range(300)),
        ((Column("A", 64, 20), ("10:00:00", "zz", "25:00:00", "1:00:00", "é")),),
        {},
    )
    logs = [
        Operation("I", key, key, {"a": key % 5 if key % 2 else 0}, 1 + key // 3)
        for key in range(300)
    ]
    logs += [  # an update with a value that is refused, a delete that logs one
        Operation("U", 24, 24, {"a": 1}, 200),
        Operation(kind="D", old=26, key=26, logged={}, transaction=201, table="", earlier={"a": 1}),
    ]
    log = [one._replace(table="HR.T") for one in logs]
    write(tmp_path / "ot", History(log, {"HR.T": shape}))
    with duckdb.connect("x.duckdb") as connection:
        connection.execute("CREATE SCHEMA hr; CREATE TABLE hr.t (id BIGINT, a TIME)")
    written = []
    write_rows = DuckDBTarget.write

    def noted(target: DuckDBTarget, effects: TableChanges, at: AppliedPosition) -> None:
        written.append(at)
        write_rows(target, effects, at)

    monkeypatch.setattr(DuckDBTarget, "write", noted)

    report = apply_trail("ot", "duckdb:x.duckdb", on_error=on_error)

    bad = {at for at, one in enumerate(log) if one.kind != "D" and one.logged["a"]}
    whole = {log[at].transaction for at in bad} if on_error == "discard-transaction" else set()
    gone = bad | {at for at, one in enumerate(log) if one.transaction in whole}
    assert report.tables["hr.t"].discarded == len(gone)
    kept = {one.key for at, one in enumerate(log) if one.kind == "I" and at not in gone} - {26}
    with duckdb.connect("x.duckdb") as connection:
        rows = connection.sql("SELECT id, a::VARCHAR FROM hr.t").fetchall()
    assert dict(rows) == dict.fromkeys(kept, "10:00:00")
    assert sum(count for reason, count in report.reasons.items() if "TIME" in reason) == len(bad)
    assert len(written) < 4


def test_a_transaction_that_begins_in_a_table_that_is_not_read_is_discarded_alone(
    tmp_path: Path,
) -> None:
    """Each split begins with the second operation of a transaction, since its first one is not read."""
    transactions = [
        [Op("I", key, table=NOTES), Op("U" if key == 2 else "I", key, "new")] for key in range(1, 6)
    ]
    write_trail(tmp_path / "ot", [transactions])
    options = ApplyOptions(
        tables=["MY.ORDERS"], on_error="discard-transaction", discards=str(tmp_path / "d.jsonl")
    )
    to = f"duckdb:{tmp_path / 'shop.duckdb'}"
    with ApplyRun(tmp_path / "ot", to, options, reading=ThreadReading(split_bytes=1)) as applied:
        report = applied.to_end()
    assert report.tables["my.orders"].discarded == 1
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        rows = connection.sql("SELECT id FROM my.orders ORDER BY id").fetchall()
    assert rows == [(1,), (3,), (4,), (5,)]


# For each transaction the place of its operation that is read, among those that are not.
PLACES: Final = {
    "first": (0, 0, 0, 0, 0),
    "inside": (1, 1, 1, 1, 1),
    "last": (2, 2, 2, 2, 2),
    "first or inside": (0, 1, 1, 1, 0),
}


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("split_bytes", [1, 1 << 20])
@pytest.mark.parametrize("files", [1, 5])
def test_a_transaction_without_an_id_is_discarded_alone(
    tmp_path: Path, files: int, split_bytes: int, places: str
) -> None:
    """Of each transaction only one operation is read, and no id shows that they are several."""
    transactions = []
    for key, place in enumerate(PLACES[places], 1):
        others = [Op("I", 2 * key + number, table=NOTES) for number in range(2)]
        others.insert(place, Op("U" if key == 2 else "I", key, "new"))
        transactions.append(others)
    for number in range(files):
        batch = changes(transactions[number::files])
        blocks = [replace(one, tx_id=pa.nulls(len(one), pa.string())) for one in batch.blocks]
        body = bytes(encode(ChangeBatch(blocks, batch.rows)).body)
        header = encode_header(FileHeader(trail=TrailInfo(seqno=number)))
        (tmp_path / f"ot{number:09}").write_bytes(header + body)
    (tmp_path / "ot.def").write_bytes(write_sourcedefs(DEFINITIONS))
    options = ApplyOptions(
        tables=["MY.ORDERS"], on_error="discard-transaction", discards=str(tmp_path / "d.jsonl")
    )
    to = f"duckdb:{tmp_path / 'shop.duckdb'}"
    reading = ThreadReading(split_bytes=split_bytes)
    with ApplyRun(tmp_path / "ot", to, options, reading=reading) as applied:
        report = applied.to_end()
    assert report.tables["my.orders"].discarded == 1
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        rows = connection.sql("SELECT id FROM my.orders ORDER BY id").fetchall()
    assert rows == [(1,), (3,), (4,), (5,)]


def test_an_operation_that_was_applied_before_is_not_discarded_with_its_transaction(
    tmp_path: Path,
) -> None:
    """The second run reads the transaction again for a table that is new in its group."""
    write_trail(tmp_path / "ot", [[[Op("I", 1), Op("U", 9, table=NOTES), Op("I", 2, table=NOTES)]]])
    to, file = f"duckdb:{tmp_path / 'shop.duckdb'}", tmp_path / "d.jsonl"
    apply_trail(tmp_path / "ot", to, tables=["MY.ORDERS"])

    report = apply_trail(
        tmp_path / "ot",
        to,
        tables=["MY.ORDERS", "MY.NOTES"],
        changed_maps="catch-up",
        on_error="discard-transaction",
        discards=str(file),
    )

    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        assert connection.sql("SELECT id FROM my.orders").fetchall() == [(1,)]
    assert [(line["table"], line["op_type"]) for line in discards(file)] == [
        ("MY.NOTES", "U"),
        ("MY.NOTES", "I"),
    ]
    assert sum(report.reasons.values()) == 2
