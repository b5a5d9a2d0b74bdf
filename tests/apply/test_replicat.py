"""Replicat parameter files: what they state lands in the tables, and what cannot be obeyed is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from apply.sources import write_log
from oracles.apply_naive import Operation
from trailgate import (
    ApplyError,
    ApplyReport,
    OptionError,
    TrailgateError,
    apply_trail,
    verify_tables,
)
from trailgate.apply.jobs import resolved_options
from trailgate.apply.replicat.mapping import ReplicatMapping
from trailgate.apply.replicat.replicat_files import parse_replicat
from trailgate.cli.main import run

FULL = {"a": 1, "b": 2, "c": 3}
WAYS = {
    "whole": """\
-- current rows of HR, as production does it
REPLICAT rshop
USERIDALIAS shop DOMAIN prod
ASSUMETARGETDEFS
BATCHSQL
DISCARDFILE {0}/rshop.dsc, APPEND, MEGABYTES 50
REPERROR (DEFAULT, DISCARD)
IGNORETRUNCATES
MAP hr.t, TARGET copy.t2, COLMAP (USEDEFAULTS, b = c, note = @STRCAT ('a=', a, ', was ', BEFORE.id)),
  FILTER (ON UPDATE, a <> 9);
""",
}


def applied(folder: Path, parameters: str, log: list[Operation], **options: Any) -> ApplyReport:
    """Apply a log as a parameter file states it to a file of DuckDB."""
    write_log(folder / "ot", log)
    params = folder / "rep.prm"
    params.write_text(parameters)
    return apply_trail(folder / "ot", f"duckdb:{folder}/x.duckdb", params=str(params), **options)


def rows(folder: Path, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
    """Return the rows of a table in their order."""
    with duckdb.connect(str(folder / "x.duckdb"), read_only=True) as connection:
        found: list[tuple[Any, ...]] = connection.sql(
            f"SELECT {columns} FROM x.{name} ORDER BY ALL"
        ).fetchall()
        return found


def inserted(key: int, transaction: int, **values: Any) -> Operation:
    return Operation("I", key, key, FULL | values, transaction)


def test_a_whole_file_as_production_has_it(tmp_path: Path) -> None:
    log = [
        inserted(1, 1),
        Operation("U", 1, 1, {"a": 7, "c": 8}, 2),
        Operation("U", 1, 1, {"a": 9}, 3),
        Operation("T", 0, 0, {}, 4),
        Operation("U", 5, 5, {"a": 1}, 5),
    ]
    report = applied(tmp_path, WAYS["whole"].format(tmp_path), log)

    assert rows(tmp_path, "copy.t2", "id, a, b, c, note") == [(1, 7, 8, 8, "a=7, was 1")]
    assert report.operations == 2
    assert (tmp_path / "rshop.dsc").read_text().count("\n") == 1
    with pytest.raises(OptionError, match="--tables"):
        applied(tmp_path, WAYS["whole"].format(tmp_path), [], tables=["HR.T"])


@pytest.mark.assumed
@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("hr.*", "copy.x_*", "copy.x_t"),
        ("hr.*", "COPY.X_*", "copy.x_t"),
        ("HR.*", "copy.*_raw", "copy.t_raw"),
        ("HR.*", "copy.*_RAW", "copy.t_raw"),
        ("hr.*", 'copy."x_*"', "copy.x_t"),
        ("hr.*", 'copy."a.*"', 'copy."a.t"'),
        ("hr.t*", "copy.*", "copy.t"),
        ("h*.t*", "z*.n*", "zr.n"),
    ],
)
def test_a_target_is_named_by_what_a_star_stands_for(
    tmp_path: Path, source: str, target: str, name: str
) -> None:
    applied(tmp_path, f"MAP {source}, TARGET {target};", [inserted(1, 1)])
    assert rows(tmp_path, name) == [(1, 1, 2, 3)]


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("KEYCOLS (a), COLMAP (USEDEFAULTS)", [(2, 1, 2, 3)]),
        ("COLMAP (id = id, total = a)", [(1, 1), (2, 5)]),
        ("COLMAP (id = id, kind = @STRUP ('new'))", [(1, "NEW"), (2, "NEW")]),
        ("COLMAP (id = id, kind = @GETENV ('GGHEADER', 'OPTYPE'))", [(1, "INSERT"), (2, "INSERT")]),
        ("WHERE (id > 1)", [(2, 5, 2, 3)]),
    ],
)
def test_an_option_of_map_is_obeyed(
    tmp_path: Path, clause: str, expected: list[tuple[Any, ...]]
) -> None:
    log = [inserted(1, 1), inserted(2, 2, a=5)]
    if "KEYCOLS" in clause:
        log = [inserted(1, 1), Operation("U", 1, 2, {"a": 1}, 2)]
    applied(tmp_path, f"MAP hr.t, TARGET hr.u, {clause};", log)
    assert rows(tmp_path, "hr.u") == expected


def test_one_table_lands_in_two(tmp_path: Path) -> None:
    parameters = """\
IGNOREDELETES
MAP hr.t, TARGET hr.low, FILTER (a < 5);
MAP hr.t, TARGET hr.high, FILTER (a >= 5);
GETDELETES
MAP hr.t, TARGET hr.every;
"""
    log = [inserted(1, 1), inserted(2, 2, a=5), Operation("D", 2, 2, FULL, 3)]
    applied(tmp_path, parameters, log)
    assert rows(tmp_path, "hr.low", "id") == [(1,)]
    assert rows(tmp_path, "hr.high", "id") == [(2,)]
    assert rows(tmp_path, "hr.every", "id") == [(1,)]


def test_collisions_are_those_of_each_statement(tmp_path: Path) -> None:
    parameters = """\
HANDLECOLLISIONS
MAP hr.t, TARGET hr.over;
MAP hr.t, TARGET hr.missing, NOHANDLECOLLISIONS, INSERTMISSINGUPDATES;
"""
    applied(tmp_path, parameters, [Operation("U", 1, 1, {"a": 4}, 1)])
    assert rows(tmp_path, "hr.missing") == [(1, 4, None, None)]
    assert rows(tmp_path, "hr.over") == []
    with pytest.raises(ApplyError, match="the row does not exist"):
        applied(tmp_path, "MAP hr.t, TARGET hr.plain;", [], group="other")


def test_a_statement_that_names_its_target_states_its_collisions(tmp_path: Path) -> None:
    parameters = """\
HANDLECOLLISIONS
MAP sales.*, TARGET hr.*;
MAP hr.t, TARGET hr.u, NOHANDLECOLLISIONS;
"""
    log = [Operation("U", 1, 1, {"a": 4}, 1)]
    for options in ({}, {"on_collision": "overlay"}):
        with pytest.raises(ApplyError, match="the row does not exist"):
            applied(tmp_path, parameters, log, **options)
    unlike = "MAP hr.t, TARGET hr.u;\nMAP hr.t, TARGET hr.u, HANDLECOLLISIONS;"
    with pytest.raises(OptionError, match=r"from line 1, and both write hr\.u.*rep\.prm, line 2"):
        applied(tmp_path, unlike, [])


def test_a_copy_of_the_key_is_not_of_the_key(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.sql("CREATE SCHEMA hr")
        connection.sql("CREATE TABLE hr.u (id BIGINT, a BIGINT, copied BIGINT)")
        connection.sql("INSERT INTO hr.u VALUES (1, 0, NULL)")
    parameters = "MAP hr.t, TARGET hr.u, COLMAP (copied = id, id = id, a = a);"
    applied(tmp_path, parameters, [Operation("U", 1, 1, {"a": 4}, 1)])
    assert rows(tmp_path, "hr.u") == [(1, 4, 1)]


def test_what_a_trail_does_not_have_is_refused(tmp_path: Path) -> None:
    item = "MAP hr.t, TARGET hr.u, COLMAP (id = id, kind = @GETENV ('GGENVIRONMENT', 'GROUPTYPE'));"
    applied(tmp_path, item, [inserted(1, 1)])
    assert rows(tmp_path, "hr.u") == [(1, "REPLICAT")]
    log_place = "MAP hr.t, TARGET hr.u, COLMAP (id = id, at = @GETENV ('GGHEADER', 'LOGRBA'));"
    with pytest.raises(OptionError, match=r"LOGRBA is not known.*rep\.prm, line 1"):
        applied(tmp_path, log_place, [inserted(2, 2)], group="other")


def test_insertallrecords_makes_every_operation_a_row(tmp_path: Path) -> None:
    log = [inserted(1, 1), Operation("U", 1, 1, {"a": 2}, 2)]
    applied(tmp_path, "INSERTALLRECORDS\nMAP hr.t, TARGET hr.u;", log)
    assert rows(tmp_path, "hr.u", "_position, id, a, _op_type, _missing")[1][1:] == (
        1,
        2,
        "U",
        '["b", "c"]',
    )


def test_operations_get_other_types(tmp_path: Path) -> None:
    log = [inserted(1, 1), Operation("U", 1, 1, FULL | {"a": 2}, 2), Operation("D", 1, 1, {}, 3)]
    parameters = "MAP hr.t, TARGET hr.u, KEYCOLS (id, a), INSERTUPDATES, IGNOREDELETES;"
    applied(tmp_path, parameters, log)
    assert rows(tmp_path, "hr.u", "id, a") == [(1, 1), (1, 2)]


def test_a_filter_over_a_column_that_is_not_logged_is_an_error(tmp_path: Path) -> None:
    log = [inserted(1, 1), Operation("U", 1, 1, {"b": 4}, 2)]
    with pytest.raises(ApplyError, match=r"FILTER cannot be decided.*does not have a.*position"):
        applied(tmp_path, "MAP hr.t, TARGET hr.t, FILTER (a > 0);", log)
    asked = "MAP hr.t, TARGET hr.t, FILTER (@COLTEST (a, MISSING) = 1 OR a > 0);"
    applied(tmp_path, asked, [])
    assert rows(tmp_path, "hr.t") == [(1, 1, 4, 3)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("SQLEXEC 'update x'", "SQLEXEC 'update x' is not supported: there is no database"),
        ("HANDLECOLLISIONS THREADS (1-3)", "HANDLECOLLISIONS THREADS .*some threads only"),
        ("REPERROR (DEFAULT, EXCEPTION)", "the response EXCEPTION is not supported"),
        ("HANDLECOLISIONS", "unknown parameter; did you mean HANDLECOLLISIONS"),
        ("MAP a.b, TARGET c.d, EVENTACTIONS (STOP);", "there are no events"),
        ("MAP a.b;", "expected TARGET"),
        ("MAP a.b, TARGET c..d;", "expected SCHEMA.TABLE after TARGET"),
        ("MAP a.b, TARGET c.d, COLMAP (x = a, X = b);", "COLMAP sets the column X twice"),
        ("MAP a.b, TARGET c.d, COLMAP (x);", "expected COLUMN = value in COLMAP"),
        ("MAP a.b, TARGET c.d", "MAP hr.t is not supported: unknown parameter"),
    ],
)
def test_unsupported_parameters_are_refused_with_their_line(line: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem) as found:
        parse_replicat(f"REPLICAT r\n{line}\nMAP hr.t, TARGET hr.t;\n", "rep.prm")
    assert "rep.prm, line 2" in str(found.value)


def test_any_text_gives_parameters_or_our_error() -> None:
    own = Random(7)
    words = [*WAYS["whole"].split(), *"(),'\"&;\n*", "MAP", "COLMAP"]
    ReplicatMapping(parse_replicat(WAYS["whole"]))
    for _ in range(2000):
        text = " ".join(own.choice(words) for _ in range(own.randrange(30)))
        try:
            ReplicatMapping(parse_replicat(text))
        except TrailgateError:
            continue


TIMED = """
REPLICAT timed
MAP hr.t, TARGET copy.t, COLMAP (USEDEFAULTS, load_ts = @DATENOW (), age = @DATEDIFF ('DD', '2020-01-01', @DATENOW ()));
"""


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_a_batch_has_one_time_of_applying_which_is_local(tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    applied(tmp_path, TIMED, [inserted(key, key) for key in range(1, 400)])

    ((stamp, ages),) = set(rows(tmp_path, "copy.t", "load_ts, age"))
    found = datetime.fromisoformat(f"{stamp}+09:00")
    assert before <= found <= before + timedelta(minutes=5)
    assert int(ages) == (found.date() - date(2020, 1, 1)).days


def test_an_update_has_the_time_of_its_own_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [inserted(1, 1), inserted(2, 2), Operation("U", 1, 1, {"a": 7}, 3)]
    for number, stamp in enumerate(("2026-01-05 09:00:00", "2026-01-06 09:00:00")):
        at = datetime.fromisoformat(stamp)
        monkeypatch.setattr(resolved_options, "local_time", lambda at=at: at)
        applied(tmp_path, TIMED, (log[:2], log[2:])[number])

    assert rows(tmp_path, "copy.t", "id, a, load_ts, age") == [
        (1, 7, "2026-01-06 09:00:00", "2197"),
        (2, 1, "2026-01-05 09:00:00", "2196"),
    ]


def test_columns_with_the_time_of_applying_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resolved_options, "local_time", lambda: datetime(2026, 1, 5, tzinfo=UTC))
    applied(tmp_path, TIMED, [inserted(1, 1), inserted(2, 2)])
    monkeypatch.undo()
    to, params = f"duckdb:{tmp_path}/x.duckdb", str(tmp_path / "rep.prm")

    (found,) = verify_tables(tmp_path / "ot", to, params=params).tables.values()
    assert (found.equal, found.is_equal, found.left_out) == (2, True, ("load_ts", "age"))
    assert run(["apply", str(tmp_path / "ot"), "--to", to, "--params", params, "--verify"]) == 0
    assert (
        "copy.t: columns with the time of applying are not compared: load_ts, age"
        in capsys.readouterr().out
    )
    assert run(["apply", str(tmp_path / "ot"), "--to", to, "--params", params, "--status"]) == 0
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("UPDATE copy.t SET b = 9 WHERE id = 2")
    (found,) = verify_tables(tmp_path / "ot", to, params=params).tables.values()
    assert [set(one.columns) for one in found.rows] == [{"b"}]


def test_versions_with_the_time_of_applying_are_not_compared(tmp_path: Path) -> None:
    applied(tmp_path, TIMED, [inserted(1, 1)], mode="history")
    params = str(tmp_path / "rep.prm")
    with pytest.raises(OptionError, match="row versions with @DATENOW columns"):
        verify_tables(tmp_path / "ot", f"duckdb:{tmp_path}/x.duckdb", params=params, mode="history")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("FILTER (@DATENOW () > '2026-01-01')", "@DATENOW would differ from run to run"),
        (
            "COLMAP (USEDEFAULTS, k = @DATENOW ()), KEYCOLS (k)",
            "the key column k would have a different value in each batch",
        ),
    ],
)
def test_where_the_time_of_applying_would_select_it_is_refused(
    tmp_path: Path, options: str, problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        applied(tmp_path, f"MAP hr.t, TARGET copy.t, {options};", [inserted(1, 1)])
