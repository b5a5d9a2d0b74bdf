"""What an operator sees of apply: how far tables are, how far behind, what failed, and exit codes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from apply.sources import DEFINITIONS, delta_rows, duckdb_rows, write_log
from apply.test_follow import inserts
from apply.test_net_effects import FULL
from apply.test_target_faults import held
from laws import chance
from oracles.apply_naive import Operation, Source
from trailgate import (
    StorageError,
    TargetConflictError,
    TargetLockedError,
    TargetUnavailableError,
    WriteError,
    apply_trail,
    find_trail,
)
from trailgate.apply.jobs.metrics import (
    ApplyStatistics,
    apply_metric_labels,
    find_unapplied_begin,
    format_apply_metrics,
)
from trailgate.apply.jobs.reports import ApplyReport, TableReport
from trailgate.apply.targets.delta_errors import SIGNS as OF_DELTA
from trailgate.apply.targets.duckdb import SIGNS as OF_DUCKDB
from trailgate.apply.targets.faults import SQLSTATES, find_fault, find_sqlstate_fault
from trailgate.apply.targets.target import AppliedPosition
from trailgate.cli.companion_apply import CompanionApply
from trailgate.cli.main import run
from trailgate.jobs.retries import LOG, Retries, call_with_retries
from trailgate.live.commands.output import LiveOutput
from trailgate.live.jobs.metrics import ReportOptions
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.storage.reading.trail_rest import count_bytes_after

STATUS = {
    "delta": ("delta:lake", "current"),
    "duckdb": ("duckdb:hr.duckdb", "current"),
    "parquet": ("parquet:history", "append"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def status(capsys: pytest.CaptureFixture[str], to: str, *options: str) -> dict[str, Any]:
    """Return what --status prints as JSON."""
    capsys.readouterr()
    assert run(["apply", *options, "--to", to, "--status", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", STATUS)
def test_positions_are_shown_without_a_trail_and_lags_with_one(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    to, mode = STATUS[name]
    write_log(folder / "ot", inserts(1, 4))
    done = apply_trail("ot", to, mode=mode)  # type: ignore[arg-type]
    assert done.position is not None
    found = status(capsys, to)
    (table,) = found["tables"]
    assert (found["group"], table["table"]) == ("trailgate", "hr.t")
    assert found["position"]["position"] == table["position"] == done.position.position
    if name != "parquet":  # its state has these of all tables alone
        assert (table["csn"], table["op_ts"]) == (done.position.csn, done.position.op_ts)
    assert (table["version"] is None) == (name != "delta")
    assert found["lag_bytes"] is None

    assert status(capsys, to, "ot")["lag_bytes"] == 0
    size = (folder / "ot000000000").stat().st_size
    write_log(folder / "ot", inserts(4, 9))
    late = status(capsys, to, "ot")
    grown = sum(file.stat().st_size for file in folder.glob("ot0*")) - size
    assert 0 < late["lag_bytes"] <= grown
    assert late["lag_seconds"] > 0
    assert run(["apply", "ot", "--to", to, "--mode", mode]) == 0
    assert status(capsys, to, "ot")["lag_bytes"] == 0

    capsys.readouterr()
    assert run(["apply", "--to", to, "--status"]) == 0
    assert "is applied up to position" in capsys.readouterr().out


@pytest.mark.parametrize("name", STATUS)
def test_all_groups_of_a_target_are_listed_unless_one_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    to, mode = STATUS[name]
    write_log(folder / "ot", inserts(1, 4))
    write_log(folder / "late", inserts(7, 9))
    apply_trail("ot", to, mode=mode)  # type: ignore[arg-type]
    apply_trail("late", to, mode=mode, group="other")  # type: ignore[arg-type]
    found = status(capsys, to)
    assert [one["group"] for one in found["groups"]] == ["other", "trailgate"]
    assert [Path(one["position"]["trail"]).name for one in found["groups"]] == [
        "late?mode=append" if mode == "append" else "late",
        "ot?mode=append" if mode == "append" else "ot",
    ]
    named = status(capsys, to, "--group", "other")
    assert [one["group"] for one in named["groups"]] == ["other"]
    capsys.readouterr()
    assert run(["apply", "ot", "--to", to, "--status"]) == 0
    assert "these positions are for" in capsys.readouterr().out


@pytest.mark.parametrize("name", STATUS)
def test_a_status_makes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    to, _ = STATUS[name]
    assert run(["apply", "--to", to, "--status"]) == 1
    assert "there is no such" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_bytes_behind_a_position_are_those_of_the_transactions_after_it(folder: Path) -> None:
    source = Source(chance("bytes behind"), keys=9)
    sizes = []
    for _ in range(6):
        before = len(source.log)
        while len(source.log) == before:
            source.transaction()
        write_log(folder / "ot", source.log[before:])
        sizes.append(find_trail("ot", DEFINITIONS).end)
    trail = find_trail("ot", DEFINITIONS)
    for end in sizes:
        place = TrailPosition(*end)
        if place == trail.end:
            assert count_bytes_after(trail, place) == 0
        between = sum(file.size for file in trail.files if file.number > place.number)
        between += trail.file(place.number).size - place.offset
        assert count_bytes_after(trail, place) == between
    assert find_unapplied_begin(trail, None) == trail.begin
    beyond = AppliedPosition("ot", f"{trail.end.number + 3:010}{0:010}")
    assert count_bytes_after(trail, find_unapplied_begin(trail, beyond)) == 0


def discarding(folder: Path) -> list[str]:
    write_log(folder / "ot", [*inserts(1, 4), Operation("U", 7, 7, {"a": 9}, 9)])
    return ["--on-error", "discard"]


def ignoring(folder: Path) -> list[str]:
    discarding(folder)
    return ["--on-error", "ignore"]


def purged(folder: Path) -> list[str]:
    write_log(folder / "ot", inserts(1, 4))
    write_log(folder / "ot", inserts(4, 9), new_file=True)
    (folder / "ot000000000").unlink()
    return []


def plain(folder: Path) -> list[str]:
    write_log(folder / "ot", inserts(1, 4))
    return []


def unfit(folder: Path) -> list[str]:
    discarding(folder)
    return []


def misused(folder: Path) -> list[str]:
    plain(folder)
    return ["--metrics", "9464"]


def unwritable(folder: Path) -> list[str]:
    discarding(folder)
    return ["--on-error", "discard", "--discards", "none/of/these.jsonl"]


CODES: dict[int, tuple[Callable[[Path], list[str]], ...]] = {
    0: (plain,),
    1: (unfit,),
    2: (misused,),
    3: (unwritable,),
    4: (discarding, ignoring, purged),
}


@pytest.mark.parametrize(("code", "case"), [(code, one) for code in CODES for one in CODES[code]])
def test_the_exit_code_states_what_became_of_the_run(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    code: int,
    case: Callable[[Path], list[str]],
) -> None:
    options = case(folder)
    assert run(["apply", "ot", "--to", "duckdb:hr.duckdb", "--json", *options]) == code
    out = capsys.readouterr().out
    if code == 4:
        summary = json.loads(out)
        assert summary["discarded"] or summary["notices"]
        assert summary["operations"]


def test_the_help_states_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--help"]) == 0
    out = capsys.readouterr().out
    for code in range(6):
        assert f" {code} " in out.partition("Exit codes:")[2]


def test_a_fault_is_tried_again_for_as_long_as_patience_lasts() -> None:
    tried = 0

    def act() -> int:
        nonlocal tried
        tried += 1
        raise TargetLockedError("locked")

    begun = time.monotonic()
    retries = Retries(patience=0.5)
    with pytest.raises(TargetLockedError):
        call_with_retries(act, retries)
    assert time.monotonic() - begun > 0.5
    assert retries.faults == {"locked": tried}
    assert tried > 1
    assert retries.outages == 1


def test_an_outage_is_a_line_and_another_one_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(LOG, "warning", lambda text, *values: lines.append(text % values))
    left = [TargetUnavailableError("gone"), TargetConflictError("lost"), TargetLockedError("held")]

    def act() -> int:
        if left:
            raise left.pop()
        return 7

    retries = Retries(patience=60)
    assert call_with_retries(act, retries) == 7
    first, last = lines
    assert first == "held; trying again"
    assert last.startswith("the target works again after ")
    assert retries.faults == {"locked": 1, "conflict": 1, "unreachable": 1}
    assert not retries.is_out


def test_a_run_that_follows_gives_up_where_conflicts_do_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("trailgate.jobs.retries.time.monotonic", lambda: now)
    retries = Retries(30, lasting=True)
    retries.record_success()
    for _ in range(20):
        retries.record_fault(TargetLockedError("held"))
        now += 60
    retries.record_success()
    for _ in range(4):  # however long each trial takes
        retries.record_fault(TargetConflictError("lost"))
        now += 60
    with pytest.raises(TargetConflictError):
        retries.record_fault(TargetConflictError("lost"))


def test_a_wait_ends_when_the_run_is_stopped() -> None:
    retries = Retries(600, stopped=lambda: True)
    retries.record_fault(TargetLockedError("held"))
    assert not retries.wait()


@pytest.mark.parametrize("state", SQLSTATES)
def test_every_sqlstate_of_the_table_is_one_of_postgresql(state: str) -> None:
    known = [code for code in STATES if code.startswith(state)]
    assert known
    assert all(find_sqlstate_fault(code) is SQLSTATES[state] for code in known)


STATES = [
    str(one.sqlstate)
    for one in vars(psycopg.errors).values()
    if isinstance(one, type) and issubclass(one, psycopg.Error) and one.sqlstate
]


@pytest.mark.parametrize("state", ["42501", "23505", "42P01", "XX000", "28P01", "3D000", ""])
def test_other_states_are_permanent(state: str) -> None:
    assert find_sqlstate_fault(state) is None


SHOWN = [
    (OF_DUCKDB, duckdb.IOException('Could not set lock on file "x"'), TargetLockedError),
    (OF_DUCKDB, duckdb.IOException("Could not write file: No space left on device"), WriteError),
    (OF_DUCKDB, duckdb.TransactionException("Conflict on update!"), TargetConflictError),
    (OF_DUCKDB, duckdb.ConstraintException("Duplicate key"), None),
    (OF_DELTA, OSError("Generic S3 error: error sending request"), TargetUnavailableError),
    (OF_DELTA, FileNotFoundError("Object at location /x not found"), TargetConflictError),
    (OF_DELTA, ValueError("no such column"), None),
]


@pytest.mark.parametrize(("signs", "error", "fault"), SHOWN)
def test_errors_of_libraries_are_known_by_their_signs(
    signs: Any, error: Exception, fault: type[Exception] | None
) -> None:
    assert find_fault(error, signs) is fault


def beside(folder: Path) -> CompanionApply:
    output = LiveOutput("stomp://b/q", "ot", ReportOptions(), metrics="x.prom", as_json=True)
    return CompanionApply(str(folder / "ot"), f"duckdb:{folder}/hr.duckdb", output)


def test_a_live_capture_goes_on_while_its_tables_are_locked(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trailgate.cli.companion_apply.PAUSE", 0.0)
    apply = beside(folder)
    write_log(folder / "ot", inserts(1, 4))
    apply.published(True)
    assert len(duckdb_rows(folder)) == 3  # nobody has the file open
    write_log(folder / "ot", inserts(4, 9))
    with held(folder):
        apply.published(True)  # it does not wait until the file is free
        assert "trailgate_apply_up" in apply.text()
        assert apply.statistics.faults["locked"] >= 1
        assert not apply.statistics.up
        assert apply.statistics.lag_bytes
    until = time.monotonic() + 60
    while len(duckdb_rows(folder)) < 8 and time.monotonic() < until:
        apply.published(False)
        time.sleep(0.05)
    assert apply.statistics.up
    assert len(duckdb_rows(folder)) == 8
    write_log(folder / "ot", inserts(9, 12))
    with held(folder), pytest.raises(TargetLockedError):
        apply.finish()
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["operations"] for line in lines] == [3, 5]


def test_metrics_have_their_labels_and_the_login_is_masked() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    position = AppliedPosition("ot", "0" * 20, op_ts=int((time.time() - 60) * 1e6))
    report = ApplyReport({'hr."t': TableReport(operations=5, inserted=4, discarded=1)}, 1, position)
    statistics = ApplyStatistics().with_batch(report).with_lag(100, position)
    text = format_apply_metrics(
        statistics, apply_metric_labels("ot", "postgresql://me:secret@db/x", "g")
    )
    found = {
        (one.name, one.labels.get("table"), one.labels.get("change")): one
        for family in parser.text_string_to_metric_families(text)
        for one in family.samples
    }
    assert "secret" not in text
    assert found["trailgate_apply_operations_total", 'hr."t', None].value == 5
    assert found["trailgate_apply_discarded_total", 'hr."t', None].value == 1
    assert found["trailgate_apply_rows_total", 'hr."t', "inserted"].value == 4
    assert found["trailgate_apply_lag_bytes", None, None].value == 100
    assert 59 < found["trailgate_apply_lag_seconds", None, None].value < 120
    assert {one.labels["target"] for one in found.values()} == {"postgresql://***@db/x"}


def test_a_lag_without_bytes_is_none() -> None:
    old = AppliedPosition("ot", "0" * 20, op_ts=0)
    text = format_apply_metrics(ApplyStatistics().with_lag(0, old), {})
    assert "trailgate_apply_lag_seconds{} 0.0" in text
    assert "trailgate_apply_lag_seconds" not in format_apply_metrics(ApplyStatistics(), {})


def test_an_update_of_delta_that_finds_nothing_is_no_conflict(folder: Path) -> None:
    """A batch in which a table is not written leaves its version as it was."""
    log = [
        Operation("I", 1, 1, FULL, 1),
        Operation("I", 2, 2, FULL, 2),
        Operation("D", 2, 2, {}, 2),
    ]
    write_log(folder / "ot", log)
    apply_trail("ot", f"delta:{folder}/lake", batch_bytes=1)
    write_log(folder / "ot", [Operation("U", 1, 1, {"a": 5}, 3)])
    apply_trail("ot", f"delta:{folder}/lake")
    assert delta_rows(folder)[1]["a"] == 5


def test_a_duckdb_file_in_the_home_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB itself expands ~, where a shell does not: after duckdb:."""
    monkeypatch.setenv("HOME", str(tmp_path))
    write_log(tmp_path / "ot", inserts(0, 3))

    assert apply_trail(tmp_path / "ot", "duckdb:~/hr.duckdb").operations == 3
    assert (tmp_path / "hr.duckdb").exists()
    with pytest.raises(StorageError, match="the folder of the DuckDB file does not exist"):
        apply_trail(tmp_path / "ot", "duckdb:~/none/hr.duckdb")
