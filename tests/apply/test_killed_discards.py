"""An operation whose line a killed run left in the discard file is not applied, whatever the trail has gained since: it is in the table or in the file."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Unpack

import duckdb
import pytest
from deltalake import DeltaTable, Schema

from apply import test_unfit_rows as unfit
from apply.histories import positions
from apply.memory_target import KilledError
from apply.sources import TARGETS, write_log
from apply.test_modes import cuts
from apply.test_net_effects import FULL, history
from laws import chance, histories
from oracles.apply_naive import COLUMNS, Operation
from oracles.modes_naive import CurrentRows, kept
from trailgate import ApplyReport, apply_repaired, apply_trail, verify_tables
from trailgate.apply.jobs.discards import DiscardFile
from trailgate.apply.jobs.options import ApplyKeywords, OnError
from trailgate.apply.jobs.writing import LISTED


def _delta(folder: Path) -> None:
    path = folder / "lake/hr/t"
    path.mkdir(parents=True)
    fields = [unfit.delta_field("id", "long"), unfit.required("a", "long"), *unfit.LONGS[2:]]
    DeltaTable.create(path, Schema(fields))


def _duckdb(folder: Path) -> None:
    with duckdb.connect(str(folder / "hr.duckdb")) as connection:
        connection.execute("CREATE SCHEMA hr.hr")
        columns = "id BIGINT PRIMARY KEY, a BIGINT NOT NULL, b BIGINT, c BIGINT"
        connection.execute(f"CREATE TABLE hr.hr.t ({columns})")


# Tables that do not allow NULL in column a.
TABLES: Final[Mapping[str, Callable[[Path], None]]] = {
    "delta": _delta,
    "duckdb": _duckdb,
    "iceberg": unfit._iceberg,
}
# The first update is refused alone, and accepted together with the second one.
REFUSED: Final = [
    Operation("I", 1, 1, FULL, 1),
    Operation("U", 1, 1, {"a": None, "b": 5}, 2),
    Operation("I", 2, 2, FULL, 2),
]
ACCEPTED: Final = Operation("U", 1, 1, {"a": 6}, 3)


@contextmanager
def killed_flushes(own: random.Random | None = None) -> Iterator[None]:
    """Context manager: runs are killed after they wrote lines to the discard file, at random if ``own`` is given, and perhaps within these lines."""
    flush = DiscardFile.flush

    def killed(file: DiscardFile) -> None:
        path = file._path
        before = path.stat().st_size if path.exists() else 0
        flush(file)
        after = path.stat().st_size if path.exists() else 0
        if after > before and (own is None or own.random() < 0.6):
            if own is not None and own.random() < 0.5:
                with path.open("r+b") as opened:
                    opened.truncate(own.randint(before, after))
            raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiscardFile, "flush", killed)
        yield


def apply_growing(
    own: random.Random,
    folder: Path,
    to: str,
    log: list[Operation],
    **options: Unpack[ApplyKeywords],
) -> ApplyReport:
    """Apply a log that grows while runs are killed at the discard file; return the last report."""
    for part in cuts(own, log):
        write_log(folder / "ot", part)
        options["batch_bytes"] = own.choice((300, 1 << 20))
        with killed_flushes(own):
            try:
                apply_trail(folder / "ot", to, **options)
            except KilledError:
                continue
    return apply_trail(folder / "ot", to, **options)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("on_error", ["discard", "discard-transaction"])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_a_line_of_a_killed_run_is_not_applied(
    name: str, begun: bool, on_error: OnError, tmp_path: Path
) -> None:
    TABLES[name](tmp_path)
    (to, rows), trail = TARGETS[name], tmp_path / "ot"
    to, file = to.format(tmp_path), tmp_path / "d.jsonl"
    given: ApplyKeywords = {"on_error": on_error, "discards": str(file)}
    write_log(trail, REFUSED[:1])
    if begun:
        apply_trail(trail, to, **given)
    write_log(trail, REFUSED[1:])
    with killed_flushes(), pytest.raises(KilledError):
        apply_trail(trail, to, **given)
    left = file.read_bytes()
    write_log(trail, [ACCEPTED])
    report = apply_trail(trail, to, **given)

    whole = on_error == "discard-transaction"
    assert file.read_bytes() == left
    assert len(lines_of(file)) == report.tables["hr.t"].discarded == (2 if whole else 1)
    assert report.reasons[LISTED] == (2 if whole else 1)
    assert rows(tmp_path) == {1: {**FULL, "a": 6}, **({} if whole else {2: FULL})}
    assert verify_tables(trail, to, **given).is_equal


@pytest.mark.parametrize("name", TABLES)
def test_a_transaction_of_which_a_killed_run_wrote_one_line_is_discarded(
    name: str, tmp_path: Path
) -> None:
    TABLES[name](tmp_path)
    (to, rows), trail = TARGETS[name], tmp_path / "ot"
    to, file = to.format(tmp_path), tmp_path / "d.jsonl"
    given: ApplyKeywords = {"on_error": "discard-transaction", "discards": str(file)}
    write_log(trail, REFUSED)
    with killed_flushes(), pytest.raises(KilledError):
        apply_trail(trail, to, **given)
    first, second = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + second[:20])
    write_log(trail, [ACCEPTED])
    apply_trail(trail, to, **given)

    assert [line["op_type"] for line in lines_of(file)] == ["U", "I"]
    assert rows(tmp_path) == {1: {**FULL, "a": 6}}


@pytest.mark.parametrize("name", TABLES)
def test_runs_that_are_killed_at_the_discard_file_leave_each_operation_in_one_place(
    name: str, tmp_path: Path
) -> None:
    """Without the discarded operations the log fits, and makes the table's rows."""
    for number in range(histories(6, tests=len(TABLES), full=300)):
        own, folder = chance(f"killed discards {name} {number}"), tmp_path / str(number)
        folder.mkdir()
        TABLES[name](folder)
        (to, read), log = TARGETS[name], list(history(own, own.choice((4, 12))).log)
        # A refused operation, and one with which it would be accepted in the same batch.
        last = log[-1].transaction
        log.append(Operation("I", 100, 100, {**FULL, "a": None}, last + 1, log[-1].table))
        log.append(Operation("U", 100, 100, {"a": 1}, last + 2, log[-1].table))
        on_error: OnError = own.choice(("discard", "discard", "discard-transaction"))
        file = folder / "d.jsonl"
        given: ApplyKeywords = {"on_error": on_error, "discards": str(file)}
        apply_growing(own, folder, to.format(folder), log, **given)

        numbers = positions(folder / "ot")
        found = [numbers[line["position"]] for line in lines_of(file)] if file.exists() else []
        dropped = set(found)
        assert len(found) == len(dropped)
        for at in dropped if on_error == "discard-transaction" else ():
            assert at is not None
            same = [n for n, one in enumerate(log) if one.transaction == log[at].transaction]
            assert dropped >= set(same)
        rest = [one for at, one in enumerate(log) if at not in dropped]
        tables, _ = kept(rest, {log[0].table: lambda: CurrentRows("stop", COLUMNS)})
        assert read(folder) == tables[log[0].table].state(), (log, dropped)
        assert verify_tables(folder / "ot", to.format(folder), **given).is_equal


def test_a_target_that_is_applied_from_an_older_position_lacks_what_is_in_the_file(
    tmp_path: Path,
) -> None:
    """The user restored it. The lines are applied to it as before, by ``--from``, or it gets their operations if the file is removed."""
    (to, rows), trail = TARGETS["duckdb"], tmp_path / "ot"
    to, file = to.format(tmp_path), tmp_path / "d.jsonl"
    _duckdb(tmp_path)
    write_log(trail, REFUSED)
    apply_trail(trail, to, on_error="discard", discards=str(file))
    (tmp_path / "hr.duckdb").unlink()  # and the new table allows NULL
    report = apply_trail(trail, to, on_error="discard", discards=str(file))

    assert report.reasons == {LISTED: 1}
    assert rows(tmp_path) == {1: FULL, 2: FULL}
    assert apply_repaired(trail, to, file, force=True).operations == 1
    assert rows(tmp_path) == {1: {**FULL, "a": None, "b": 5}, 2: FULL}
    (tmp_path / "hr.duckdb").unlink()
    file.unlink()
    apply_trail(trail, to, on_error="discard", discards=str(file))
    assert rows(tmp_path) == {1: {**FULL, "a": None, "b": 5}, 2: FULL}


def test_lines_before_the_position_of_the_group_are_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "d.jsonl"
    written = [{"reason": "", "position": f"{number:020}"} for number in range(100)]
    path.write_text("".join(json.dumps(line) + "\n" for line in written))
    parsed: list[Any] = []
    loads = json.loads

    def noted(text: bytes) -> Any:
        parsed.append(loads(text))
        return parsed[-1]

    monkeypatch.setattr(json, "loads", noted)
    DiscardFile(str(path), after=f"{97:020}")
    assert parsed == written[98:]
