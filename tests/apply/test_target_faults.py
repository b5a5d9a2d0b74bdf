"""Files of DuckDB, Delta tables and files of Parquet that others lock, change or fill the disk of while a trail is applied: each change is applied once, and faults are counted."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import duckdb
import pytest
from deltalake import DeltaTable

from apply.memory_target import MemoryTarget
from apply.sources import TARGETS, delta_rows, duckdb_rows, write_log
from apply.test_follow import WAIT, following, inserts
from apply.test_net_effects import FULL as FULL_ROW
from laws import chance, examples
from oracles.apply_naive import Operation, Source
from trailgate import TargetConflictError, TargetLockedError, apply_trail
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.jobs.apply import ApplyRun, ThreadReading
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.targets.target import AppliedPosition
from trailgate.cli.main import run
from trailgate.jobs.retries import Fault, Retries

HOLD = """
import duckdb, sys, time
connection = duckdb.connect()
connection.execute("ATTACH 'hr.duckdb' AS held (READ_ONLY)")
print("held", flush=True)
time.sleep(float(sys.argv[1]))
"""


@contextmanager
def held(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Let another process read the file of DuckDB."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(WAIT)], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        yield holder
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def changes(own: Random, folder: Path, transactions: int) -> Source:
    """Return a source whose trail is in a folder."""
    source = Source(own, keys=20)
    for _ in range(transactions):
        source.transaction()
    write_log(folder / "ot", source.log)
    return source


def test_a_target_that_is_opened_by_a_function_is_opened_again_after_a_conflict(
    tmp_path: Path,
) -> None:
    """As a session of Spark does, whose MERGE lost against another writer."""
    write_log(tmp_path / "ot", inserts(1, 4))
    memory = MemoryTarget(each_alone=True)
    opened: list[str] = []
    write = memory.write

    def lost(effects: TableChanges, at: AppliedPosition) -> None:
        if len(opened) == 1:
            raise TargetConflictError("lost")
        write(effects, at)

    memory.write = lost  # type: ignore[method-assign]

    def open_target() -> MemoryTarget:
        opened.append("once more")
        return memory.opened("g")

    options = ApplyOptions(group="g")
    with ApplyRun(tmp_path / "ot", "memory:", options, open_target=open_target) as run:
        assert run.to_end().operations == 3

    assert len(opened) == 2
    assert sorted(row["id"] for row in memory.table(("hr", "t"))) == [1, 2, 3]
    assert run.retries.faults["conflict"] == 1


def test_a_file_that_another_process_reads_is_waited_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trail, to = str(tmp_path / "ot"), f"duckdb:{tmp_path}/hr.duckdb"
    write_log(tmp_path / "ot", inserts(1, 4))
    apply_trail(trail, to)
    write_log(tmp_path / "ot", inserts(4, 9))
    with held(tmp_path) as holder:
        with pytest.raises(TargetLockedError, match="another process has the file open") as locked:
            apply_trail(trail, to, patience=0)
        assert f"process {holder.pid}" in str(locked.value)
        assert run(["apply", trail, "--to", to, "--patience", "0"]) == 5
        assert "error: another process has the file open" in capfd.readouterr().err
    with held(tmp_path) as holder:
        record = Retries.record_fault

        def freed(self: Retries, error: Fault) -> None:
            holder.kill()
            record(self, error)

        monkeypatch.setattr(Retries, "record_fault", freed)
        assert run(["apply", trail, "--to", to, "--json"]) == 0

    out, err = capfd.readouterr()
    assert json.loads(out)["operations"] == 5
    assert json.loads(out)["faults"]["locked"] >= 1
    assert err.count("trying again") == 1
    assert err.count("works again") == 1
    assert len(duckdb_rows(tmp_path)) == 8


def test_a_run_that_follows_a_trail_and_readers_of_its_file_take_turns(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", inserts(1, 4))
    metrics = tmp_path / "apply.prom"
    with following(tmp_path, "--json", "--metrics", str(metrics), output=subprocess.PIPE) as run:
        assert run.stdout is not None
        run.stdout.readline()
        until = time.monotonic() + WAIT
        while True:  # the file is free as soon as the batch is done
            try:
                assert len(duckdb_rows(tmp_path)) == 3
                break
            except duckdb.IOException:
                assert time.monotonic() < until
        with held(tmp_path):
            write_log(tmp_path / "ot", inserts(4, 9))
            assert wait_for(metrics, "trailgate_apply_up{", 0.0)
            assert value(metrics, "trailgate_apply_lag_bytes{") > 0
            assert value(metrics, "trailgate_apply_errors_total{", 'reason="locked"') >= 1
        second = json.loads(run.stdout.readline())
        assert wait_for(metrics, "trailgate_apply_up{", 1.0)
        assert wait_for(metrics, "trailgate_apply_lag_bytes{", 0.0)
    assert second["operations"] == 5
    assert len(duckdb_rows(tmp_path)) == 8
    assert value(metrics, "trailgate_apply_operations_total{", 'table="hr.t"') == 8
    assert value(metrics, "trailgate_apply_batches_total{") == 2
    assert value(metrics, "trailgate_apply_outages_total{") == 1
    assert value(metrics, "trailgate_apply_lag_seconds{") == 0
    assert time.time() - value(metrics, "trailgate_apply_last_commit_timestamp_seconds{") < WAIT


def value(metrics: Path, name: str, label: str = "") -> float:
    """Return the value of a metric."""
    lines = [one for one in metrics.read_text().splitlines() if one.startswith(name)]
    (line,) = [one for one in lines if label in one]
    return float(line.rpartition(" ")[2])


def wait_for(metrics: Path, name: str, expected: float) -> bool:
    """Return whether a metric gets a value."""
    until = time.monotonic() + WAIT
    while value(metrics, name) != expected:
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def compacted(folder: Path, own: Random) -> None:
    """Compact the table, and remove the files that it does not name any more."""
    table = DeltaTable(folder / "lake/hr/t")
    table.optimize.compact()
    if own.random() < 0.7:
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def checkpointed(folder: Path, own: Random) -> None:
    """Read the file in another connection."""
    del own
    duckdb_rows(folder)


BETWEEN: dict[str, Callable[[Path, Random], None]] = {
    "delta": compacted,
    "duckdb": checkpointed,
}


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("name", BETWEEN)
def test_others_may_work_on_the_tables_between_batches(
    name: str, released: bool, tmp_path: Path
) -> None:
    """A run that does not release its target finds out by a fault, and a file of DuckDB cannot be opened then."""
    if name == "duckdb" and not released:
        pytest.skip("no other process can open the file")
    address, rows = TARGETS[name]
    own = chance(f"between {name} {released}")
    source = changes(own, tmp_path, 10)
    reading = ThreadReading(threads=1, batch_bytes=300)
    with ApplyRun(
        tmp_path / "ot", address.format(tmp_path), ApplyOptions(), reading=reading
    ) as apply:
        for _ in apply.batches():
            if released:
                apply.release()
            BETWEEN[name](tmp_path, own)
        assert rows(tmp_path) == source.rows
        assert not (released and apply.retries.faults)


@pytest.mark.parametrize("name", TARGETS)
def test_runs_of_one_group_that_take_turns_apply_each_change_once(
    name: str, tmp_path: Path
) -> None:
    address, rows = TARGETS[name]
    faults, number = 0, 0
    # One pair of runs may meet no fault, by chance.
    while number < examples(4) // 2 or not faults:
        number += 1
        assert number < 20
        own = chance(f"turns {name} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        source = changes(own, folder, 8)
        with ExitStack() as opened:
            runs = []
            for size in (200, 400):
                made = ApplyRun(
                    folder / "ot",
                    address.format(folder),
                    ApplyOptions(),
                    reading=ThreadReading(threads=1, batch_bytes=size),
                )
                made.release()  # one process may not open a file of DuckDB twice
                runs.append(opened.enter_context(made))
            ended: set[int] = set()
            while len(ended) < len(runs):
                at = own.randrange(len(runs))
                if next(runs[at].batches(), None) is None:
                    ended.add(at)
                runs[at].release()
            faults += sum(sum(one.retries.faults.values()) for one in runs)
        assert rows(folder) == source.rows


@contextmanager
def files_of(most: int) -> Iterator[None]:
    """Let no file of this process get larger, which looks like a full disk to who writes."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


def appended(folder: Path) -> int:
    """Return the number of rows of the files of Parquet."""
    files = f"{folder}/history/hr/t/*.parquet"
    with duckdb.connect() as connection:
        return len(connection.execute(f"SELECT * FROM '{files}'").fetchall())


MANY = 2_000
FULL: dict[str, tuple[str, int, str, Callable[[Path], int]]] = {
    "delta": ("delta:{}/lake", 4_000, "current", lambda folder: len(delta_rows(folder))),
    "duckdb": (
        "duckdb:{}/hr.duckdb",
        20_000,
        "current",
        lambda folder: len(duckdb_rows(folder)),
    ),
    "parquet": ("parquet:{}/history", 4_000, "append", appended),
}


@pytest.mark.parametrize("name", FULL)
def test_a_full_disk_ends_the_run_which_continues_when_there_is_room(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    to, limit, mode, count = FULL[name]
    log = [Operation("I", key, key, FULL_ROW, 1) for key in range(MANY)]
    write_log(tmp_path / "ot", log)
    command = ["apply", str(tmp_path / "ot"), "--to", to.format(tmp_path), "--mode", mode]
    with files_of(limit):
        full = run(command)
    last = capfd.readouterr().err.splitlines()[-1]
    again = run(command)

    assert (full, again) == (3, 0)
    assert "File too large" in last
    assert count(tmp_path) == MANY
