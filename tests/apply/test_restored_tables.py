"""A table of a lake that others restored to an older state is not written as if it had the rows that it lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from apply.lakes import CHECKPOINT, LAKES, Lake, open_catalog
from apply.test_dropped_tables import OTHER, T, insert, values
from trailgate import StorageError, apply_trail, verify_tables
from trailgate.apply.jobs.apply import ApplyRun
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.targets.target import group_positions
from trailgate.cli.main import run
from trailgate.model.positions import short_position

SCHEMA: Final = pa.schema([("k", pa.int64()), ("v", pa.string()), ("w", pa.string())])
BATCHES: Final = 3
LAST: Final = {**{key: str(key) for key in range(1, BATCHES + 1)}, 0: "others"}


@dataclass(frozen=True)
class Applied:
    """A lake whose table HR.T had a row of others first, and then one of each batch; ``versions`` are those of the table."""

    lake: Lake
    prefix: Path
    versions: list[int]
    put_back: Callable[[], object]  # as of the second batch

    def restore(self, batch: int) -> None:
        """Restore the table as of the end of a batch."""
        self.lake.restore("hr/t", self.versions[batch])

    def append(self, key: int) -> None:
        """Append a row, as others do."""
        row = {"k": key, "v": "others", "w": "others"}
        self.lake.append("hr/t", pa.Table.from_pylist([row], SCHEMA))

    def apply(self, **options: Any) -> None:
        apply_trail(self.prefix, self.lake.address, **options)

    def rows(self) -> dict[int, Any]:
        return values(self.lake, "hr/t", "w")


def applied(name: str, folder: Path) -> Applied:
    """Return a lake to which batches were applied, each by a run of its own."""
    lake, prefix = LAKES[name](folder), folder / "ot"
    lake.create("hr/t", SCHEMA)
    made = Applied(lake, prefix, [], lambda: None)
    made.append(0)
    versions, put_back = [lake.version("hr/t")], made.put_back
    for key in range(1, BATCHES + 1):
        insert(prefix, key, T, OTHER)
        made.apply()
        versions.append(lake.version("hr/t"))
        if key == 2:
            put_back = lake.back_up("hr/t")
    return Applied(lake, prefix, versions, put_back)


def _before_others(made: Applied) -> None:
    made.append(90)
    made.restore(2)
    made.append(91)


def _and_again(made: Applied) -> None:
    made.restore(1)
    made.restore(3)
    made.restore(2)


def _without_checkpoint(made: Applied) -> None:
    made.restore(2)
    made.lake.drop(CHECKPOINT)


# What others do, and the last batch that the table has then.
LOST: Final[Mapping[str, tuple[Callable[[Applied], object], int]]] = {
    "the batch before": (lambda made: made.restore(2), 2),
    "the first batch": (lambda made: made.restore(1), 1),
    "before the first batch": (lambda made: made.restore(0), 0),
    "between other commits": (_before_others, 2),
    "several times": (_and_again, 2),
    "a copy of the table": (lambda made: made.put_back(), 2),
    "a group without its checkpoint": (_without_checkpoint, 2),
}


@pytest.mark.parametrize("case", LOST)
@pytest.mark.parametrize("name", LAKES)
def test_a_restored_table_is_refused_and_gets_what_it_lacks_by_another_group(
    name: str, case: str, tmp_path: Path
) -> None:
    made = applied(name, tmp_path)
    act, last = LOST[case]
    act(made)
    before = made.rows()
    assert set(before) - {90, 91} == set(range(last + 1))
    insert(made.prefix, 4, T, OTHER)

    for _ in range(2):
        with pytest.raises(
            StorageError, match=r"restored to an older state.*table hr\.t"
        ) as caught:
            made.apply()
    assert made.rows() == before
    made.apply(tables=["HR.OTHER"])
    assert list(values(made.lake, "hr/other", "v")) == [1, 2, 3, 4]
    after = re.search(r"--group NAME(?: --after (\S+))?", caught.value.hint)
    assert after is not None
    assert bool(after[1]) == bool(last)
    made.apply(tables=["HR.T"], group="second", after=after[1])
    assert made.rows() == {**before, **LAST, 4: "4"}


@pytest.mark.parametrize("name", LAKES)
def test_a_transaction_that_shares_its_csn_is_not_lost(name: str, tmp_path: Path) -> None:
    """The CSN of the last operation that the table has would skip it."""
    lake, prefix = LAKES[name](tmp_path), tmp_path / "ot"
    versions = []
    for key, csn in ((1, 100), (2, 200), (3, 200), (4, 300)):
        insert(prefix, key, T, csn=csn)
        apply_trail(prefix, lake.address)
        versions.append(lake.version("hr/t"))
    lake.restore("hr/t", versions[1])
    insert(prefix, 5, T)
    with pytest.raises(StorageError) as caught:
        apply_trail(prefix, lake.address)
    after = re.search(r"--group NAME --after (\S+)$", str(caught.value))
    assert after is not None

    apply_trail(prefix, lake.address, group="second", after=after[1])
    assert list(values(lake, "hr/t", "w")) == [1, 2, 3, 4, 5]
    report = verify_tables(prefix, lake.address, group="second", after=after[1])
    assert (report.is_equal, report.tables["hr.t"].equal) == (True, 3)
    lake.restore("hr/t", versions[2])
    assert not verify_tables(prefix, lake.address, group="second", after=after[1]).is_equal


def _back_again(made: Applied) -> None:
    made.restore(1)
    made.restore(3)


def _others_undone(made: Applied) -> None:
    made.append(90)
    made.restore(3)


def _others_added(made: Applied) -> None:
    made.restore(1)
    made.restore(3)
    made.append(90)


# What loses no row of the group, and what others added.
KEPT: Final[Mapping[str, tuple[Callable[[Applied], object], dict[int, str]]]] = {
    "the newest state again": (_back_again, {}),
    "others' rows are undone": (_others_undone, {}),
    "others' rows are added": (_others_added, {90: "others"}),
}


@pytest.mark.parametrize("case", KEPT)
@pytest.mark.parametrize("name", LAKES)
def test_a_table_that_has_all_of_its_rows_is_applied_to(
    name: str, case: str, tmp_path: Path
) -> None:
    made = applied(name, tmp_path)
    act, more = KEPT[case]
    act(made)
    for key in (4, 5):
        insert(made.prefix, key, T, OTHER)
        made.apply()
    assert made.rows() == {**LAST, **more, 4: "4", 5: "5"}


@pytest.mark.parametrize("mode", ["current", "append", "history"])
@pytest.mark.parametrize("name", LAKES)
def test_a_table_that_is_restored_while_a_trail_is_followed_is_refused(
    name: str, mode: Any, tmp_path: Path
) -> None:
    lake, prefix = LAKES[name](tmp_path), tmp_path / "ot"
    versions = []
    insert(prefix, 1, T)
    with ApplyRun(str(prefix), lake.address, ApplyOptions(mode=mode)) as run:
        for key in (2, 3):
            run.to_end()
            insert(prefix, key, T)
            run.release()
            versions.append(lake.version("hr/t"))
        lake.restore("hr/t", versions[0])
        with pytest.raises(StorageError, match="restored to an older state"):
            run.to_end()
    assert list(values(lake, "hr/t", "w")) == [1]


@pytest.mark.parametrize("name", LAKES)
def test_verify_finds_the_rows_that_a_restored_table_lacks(name: str, tmp_path: Path) -> None:
    lake, prefix = LAKES[name](tmp_path), tmp_path / "ot"
    versions = []
    for key in (1, 2):
        insert(prefix, key, T, OTHER)
        apply_trail(prefix, lake.address)
        versions.append(lake.version("hr/t"))
    lake.restore("hr/t", versions[0])

    found = verify_tables(prefix, lake.address).tables["hr.t"]
    assert (found.equal, found.missing) == (1, 1)


@pytest.mark.parametrize("name", LAKES)
def test_a_column_of_later_is_no_dropped_one_in_a_restored_table(name: str, tmp_path: Path) -> None:
    """The error says what happened: the column went with the rows."""
    made = applied(name, tmp_path)
    made.lake.drop_column("hr/t", "w")
    without = made.lake.version("hr/t")
    made.lake.add_column("hr/t", "w")
    insert(made.prefix, 4, T)
    made.apply()
    made.lake.restore("hr/t", without)
    insert(made.prefix, 5, T)
    with pytest.raises(StorageError, match="restored to an older state"):
        made.apply()


def test_a_restore_to_a_time_is_refused(tmp_path: Path) -> None:
    """The log does not state the version; a restore to a version does."""
    made = applied("delta", tmp_path)
    before = datetime.now(UTC)
    made.append(90)
    DeltaTable(tmp_path / "lake/hr/t").restore(before)
    insert(made.prefix, 4, T)
    with pytest.raises(StorageError, match="restored to an older state: it lacks operations"):
        made.apply()
    made.restore(3)
    made.apply()
    assert made.rows() == {**LAST, 4: "4"}


def test_a_log_of_delta_that_was_cleaned_is_continued(tmp_path: Path) -> None:
    made = applied("delta", tmp_path)
    made.append(90)
    DeltaTable(tmp_path / "lake/hr/t").create_checkpoint()
    for file in sorted((tmp_path / "lake/hr/t/_delta_log").glob("*.json"))[:-1]:
        file.unlink()
    insert(made.prefix, 4, T)
    made.apply()
    assert made.rows() == {**LAST, 4: "4", 90: "others"}


def test_snapshots_that_are_expired_are_no_older_state(tmp_path: Path) -> None:
    made = applied("iceberg", tmp_path)
    made.append(90)
    with open_catalog(tmp_path / "lake") as own:
        maintenance = own.load_table("hr.t").maintenance
        maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
        assert len(own.load_table("hr.t").snapshots()) == 1
    insert(made.prefix, 4, T)
    made.apply()
    assert made.rows() == {**LAST, 4: "4", 90: "others"}


def _expire(made: Applied) -> None:
    """Expire all snapshots but the current one, and those that a tag keeps."""
    with open_catalog(made.prefix.parent / "lake") as own:
        own.load_table("hr.t").maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()


def _tag(made: Applied) -> None:
    with open_catalog(made.prefix.parent / "lake") as own:
        table = own.load_table("hr.t")
        version = made.lake.version("hr/t")
        table.manage_snapshots().create_tag(version, f"t{version}").commit()


def test_a_snapshot_that_only_a_tag_keeps_is_no_newer_state(tmp_path: Path) -> None:
    """Those between it and the current one are expired, so nobody knows whether its rows are there."""
    made = applied("iceberg", tmp_path)
    _tag(made)
    for key in (90, 91):
        made.append(key)
    _expire(made)
    assert [one.notice for one in group_positions(made.lake.address)[0].tables] == [None, None]
    for key in (4, 5):
        insert(made.prefix, key, T, OTHER)
        made.apply()
    assert made.rows() == {**LAST, 4: "4", 5: "5", 90: "others", 91: "others"}


@pytest.mark.parametrize("keeps_last", [True, False])
def test_a_table_whose_first_snapshots_are_all_there_was_restored(
    keeps_last: bool, tmp_path: Path
) -> None:
    """The newer ones are expired: only the table's property has the position, or a tag keeps the last one too."""
    made = applied("iceberg", tmp_path)
    if keeps_last:
        _tag(made)
    made.restore(0)
    _expire(made)
    insert(made.prefix, 4, T, OTHER)
    with pytest.raises(StorageError, match="restored to an older state: it lacks operations"):
        made.apply()
    assert list(made.rows()) == [0]


@pytest.mark.parametrize("name", LAKES)
def test_the_status_says_that_a_table_was_restored(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = applied(name, tmp_path)
    (group,) = group_positions(made.lake.address)
    at = short_position(next(one.position for one in group.tables if one.table == "hr.t"))
    status = ["apply", "--to", made.lake.address, "--status"]
    made.restore(2)
    made.append(90)
    notice = rf"hr\.t was restored to an older state: it has the operations up to position 0:\d+, but the group has applied it up to position {at}"
    assert run(status) == 0
    assert re.search(notice, "".join(capsys.readouterr()))
    assert run([*status, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (shown,) = found["notices"]
    assert re.fullmatch(notice, shown)
    assert [one["notice"] for one in found["tables"]] == [None, shown]

    made.lake.restore("hr/t", made.versions[3])
    assert run(status) == 0
    assert "restored" not in "".join(capsys.readouterr())


def test_status_has_the_csn_of_a_commit_of_a_session(tmp_path: Path) -> None:
    """A session stores it in the user metadata of its commit."""
    made = applied("delta", tmp_path)
    (before,) = group_positions(made.lake.address)
    log = max((tmp_path / "lake/hr/t/_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for info in (one["commitInfo"] for one in actions if "commitInfo" in one):
        own = {name: info.pop(name) for name in list(info) if name.startswith("trailgate.")}
        info["userMetadata"] = json.dumps(own)
    log.write_text("\n".join(map(json.dumps, actions)))
    assert group_positions(made.lake.address) == [before]
