"""A group whose tables or MAP statements change: it goes on where no table lacks anything, and else says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from apply.bank import ANN, CAT, HISTORY, order, rows_of, write_bank
from trailgate import ApplyReport, StorageError, apply_trail, verify_tables
from trailgate.cli.main import run

CUST = "MAP bank.cust, TARGET b.cust;"
ORDERS = "MAP bank.orders, TARGET b.orders;"
LATER = [("BANK.ORDERS", "I", {}, order(4, "CAT", 10)), ("BANK.CUST", "D", CAT, {})]
CUST_ROWS = [("ANN", "Moss"), ("CAT", "Bergen")]
ORDER_ROWS = [(2, 75), (3, 90)]


def applied(folder: Path, *lines: str, **options: Any) -> ApplyReport:
    """Apply the bank's trail as the lines of a parameter file state it."""
    params = folder / "rep.prm"
    params.write_text("REPLICAT m4\n" + "\n".join(lines))
    to = f"duckdb:{folder}/x.duckdb"
    return apply_trail(folder / "ot", to, params=str(params), **options)


def customers(folder: Path) -> list[tuple[Any, ...]]:
    return rows_of(folder / "x.duckdb", "b.cust", "cust_code, city")


def orders(folder: Path) -> list[tuple[Any, ...]]:
    return rows_of(folder / "x.duckdb", "b.orders", "order_id, amount")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([CUST, ORDERS], [ORDERS, CUST]),
        ([CUST], ["MAP BANK.CUST, TARGET B.Cust;"]),
        ([CUST], [CUST, "MAPEXCLUDE bank.absent;"]),
        ([CUST, "MAPEXCLUDE bank.absent*;"], [CUST]),
        (["MAP bank.*, TARGET b.*;"], ["MAP bank.*, TARGET b.*;", "MAPEXCLUDE bank.orders;"]),
        ([CUST, ORDERS], [CUST]),
    ],
    ids=["order", "case", "excludes an absent table", "absent table again", "excludes", "drops"],
)
def test_a_file_that_adds_no_table_is_of_the_same_group(
    tmp_path: Path, before: list[str], after: list[str]
) -> None:
    write_bank(tmp_path / "ot")
    applied(tmp_path, *before)
    write_bank(tmp_path / "ot", LATER, len(HISTORY))

    applied(tmp_path, *after)

    assert customers(tmp_path) == [("ANN", "Moss")]


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ([CUST], [CUST, ORDERS], "bank.orders to b.orders"),
        (
            ["MAP bank.*, TARGET b.*;", "MAPEXCLUDE bank.orders;"],
            ["MAP bank.*, TARGET b.*;"],
            "bank.orders",
        ),
    ],
    ids=["a MAP more", "an exclusion less"],
)
def test_a_table_joins_a_group_as_changed_maps_states(
    tmp_path: Path, before: list[str], after: list[str], named: str
) -> None:
    write_bank(tmp_path / "ot")
    applied(tmp_path, *before)
    with pytest.raises(StorageError) as caught:
        applied(tmp_path, *after)
    assert f"{named} would lack the earlier operations" in caught.value.problem
    assert "--changed-maps catch-up" in caught.value.hint

    caught_up = applied(tmp_path, *after, changed_maps="catch-up")

    assert (customers(tmp_path), orders(tmp_path)) == (CUST_ROWS, ORDER_ROWS)
    assert [*caught_up.tables] == ["b.orders"]  # the others have a position of their own
    write_bank(tmp_path / "ot", LATER, len(HISTORY))
    applied(tmp_path, *after)
    assert (customers(tmp_path), orders(tmp_path)) == ([("ANN", "Moss")], [*ORDER_ROWS, (4, 10)])
    params = str(tmp_path / "rep.prm")
    assert verify_tables(tmp_path / "ot", f"duckdb:{tmp_path}/x.duckdb", params=params).is_equal


def test_a_loaded_table_joins_at_the_groups_position(tmp_path: Path) -> None:
    write_bank(tmp_path / "ot")
    applied(tmp_path, CUST)

    joined = applied(tmp_path, CUST, ORDERS, changed_maps="continue")

    assert joined.operations == 0
    assert "bank.orders to b.orders: applied from position 0:" in joined.notices[0]
    write_bank(tmp_path / "ot", LATER, len(HISTORY))
    applied(tmp_path, CUST, ORDERS)  # the group has both from then on
    assert (customers(tmp_path), orders(tmp_path)) == ([("ANN", "Moss")], [(4, 10)])


def test_a_further_source_of_a_table_does_not_catch_up(tmp_path: Path) -> None:
    """The table's position would hide what the new source has before it."""
    write_bank(tmp_path / "ot")
    one = "MAP bank.cust, TARGET b.names, COLMAP (id = cust_code), KEYCOLS (id);"
    other = "MAP bank.orders, TARGET b.names, COLMAP (id = note), KEYCOLS (id);"
    applied(tmp_path, one)
    with pytest.raises(StorageError, match=r"b\.names is applied up to position.*joins it"):
        applied(tmp_path, one, other, changed_maps="catch-up")


MORE: Final[list[Any]] = [("BANK.ORDERS", "I", {}, order(5, "CAT", 20))]
OTHER_ORDERS: Final = "MAP bank.cust, TARGET b.orders, COLMAP (order_id = 9), KEYCOLS (order_id);"


@pytest.mark.parametrize("runs", [1, 2], ids=["one run without it", "two"])
def test_a_statement_that_was_dropped_catches_up(runs: int, tmp_path: Path) -> None:
    """Its target has the position of its own operations, so what it lacks is what follows that."""
    write_bank(tmp_path / "ot")
    applied(tmp_path, CUST, ORDERS)
    written = len(HISTORY)
    for log in (LATER, MORE)[:runs]:
        write_bank(tmp_path / "ot", log, written)
        written += len(log)
        applied(tmp_path, CUST)
    assert (customers(tmp_path), orders(tmp_path)) == ([("ANN", "Moss")], ORDER_ROWS)
    with pytest.raises(StorageError, match=r"bank\.orders to b\.orders would lack"):
        applied(tmp_path, CUST, ORDERS)

    applied(tmp_path, CUST, ORDERS, changed_maps="catch-up")

    missed = [(4, 10), (5, 20)][:runs]
    assert (customers(tmp_path), orders(tmp_path)) == ([("ANN", "Moss")], [*ORDER_ROWS, *missed])
    assert applied(tmp_path, CUST, ORDERS).operations == 0
    params, to = str(tmp_path / "rep.prm"), f"duckdb:{tmp_path}/x.duckdb"
    assert verify_tables(tmp_path / "ot", to, params=params).is_equal


def test_another_source_of_a_dropped_statements_target_does_not_catch_up(tmp_path: Path) -> None:
    write_bank(tmp_path / "ot")
    applied(tmp_path, CUST, ORDERS)
    write_bank(tmp_path / "ot", LATER, len(HISTORY))
    applied(tmp_path, CUST)
    with pytest.raises(StorageError, match=r"b\.orders is applied up to position.*joins it"):
        applied(tmp_path, CUST, OTHER_ORDERS, changed_maps="catch-up")


@pytest.mark.parametrize("target", ["delta:{0}/lake", "parquet:{0}/history"])
def test_other_targets_catch_up_too(tmp_path: Path, target: str) -> None:
    write_bank(tmp_path / "ot")
    to = target.format(tmp_path)
    mode = "append" if target.startswith("parquet") else "current"
    options: dict[str, Any] = {"mode": mode}
    first = apply_trail(tmp_path / "ot", to, tables=["BANK.CUST"], **options)
    more = ["BANK.CUST", "BANK.ORDERS"]
    with pytest.raises(StorageError, match=r"bank\.orders would lack"):
        apply_trail(tmp_path / "ot", to, tables=more, **options)
    found = apply_trail(tmp_path / "ot", to, tables=more, changed_maps="catch-up", **options)
    assert (first.operations, found.operations) == (5, 5)
    assert [*found.tables] == ["bank.orders"]
    assert apply_trail(tmp_path / "ot", to, tables=more, **options).operations == 0


def test_fewer_of_all_tables_are_of_the_same_group(tmp_path: Path) -> None:
    write_bank(tmp_path / "ot", HISTORY[:6])
    to = f"duckdb:{tmp_path}/x.duckdb"
    apply_trail(tmp_path / "ot", to)
    write_bank(tmp_path / "ot", HISTORY[6:], 6)
    assert [*apply_trail(tmp_path / "ot", to, tables=["BANK.CUST"]).tables] == ["bank.cust"]
    with pytest.raises(StorageError, match="all tables would lack the earlier operations"):
        apply_trail(tmp_path / "ot", to)
    apply_trail(tmp_path / "ot", to, changed_maps="catch-up")
    found = rows_of(tmp_path / "x.duckdb", "bank.orders", "order_id, amount")
    assert found == ORDER_ROWS


PATTERNS = {
    "MAP banc.cust, TARGET b.cust;": "line 3, MAP banc.cust: no table of the trail fits; there are BANK.CUST, BANK.ORDERS. Did you mean BANK.CUST?",
    "MAP *.*.*, TARGET b.*;": "MAP *.*.*: no table of the trail fits; there are BANK.CUST, BANK.ORDERS. A pattern must have as many parts",
    "MAP pdb.bank.cust, TARGET b.cust;": "MAP pdb.bank.cust: no table",
    "SOURCECATALOG pdb\nMAP bank.cust, TARGET b.cust;": "MAP pdb.bank.cust: no table",
}


@pytest.mark.parametrize("lines", PATTERNS)
def test_a_map_that_no_table_fits_is_reported(
    tmp_path: Path, lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bank(tmp_path / "ot")
    report = applied(tmp_path, ORDERS, lines)
    assert len(report.notices) == 1
    assert PATTERNS[lines] in report.notices[0]

    params, to = str(tmp_path / "rep.prm"), f"duckdb:{tmp_path}/y.duckdb"
    assert run(["apply", str(tmp_path / "ot"), "--params", params, "--to", to, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["notices"] == list(report.notices)
    assert applied(tmp_path, ORDERS, lines).notices == report.notices  # "nothing new" says it too


def test_a_pattern_of_tables_that_none_fits_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bank(tmp_path / "ot")
    to = f"duckdb:{tmp_path}/x.duckdb"
    wrong = ["--tables", "BANC.*,BANK.CUST"]
    assert run(["apply", str(tmp_path / "ot"), "--to", to, *wrong]) == 0
    assert "note: --tables BANC.*: no table of the trail fits" in "".join(capsys.readouterr())


def test_patterns_that_no_table_fits_store_no_position(tmp_path: Path) -> None:
    """The file is made, with an empty table of positions alone: the corrected command applies everything."""
    write_bank(tmp_path / "ot")
    command = ["apply", str(tmp_path / "ot"), "--to", f"duckdb:{tmp_path}/x.duckdb", "--tables"]

    assert run([*command, "NOPE.*"]) == 0

    file = tmp_path / "x.duckdb"
    with duckdb.connect(str(file), read_only=True) as connection:
        assert connection.sql("SHOW TABLES").fetchall() == [("trailgate_checkpoint",)]
        assert connection.sql("FROM trailgate_checkpoint").fetchall() == []
    assert run([*command, "BANK.*"]) == 0
    assert rows_of(file, "bank.orders", "order_id, amount") == ORDER_ROWS


def test_patterns_with_a_table_are_not_reported(tmp_path: Path) -> None:
    write_bank(tmp_path / "ot")
    assert applied(tmp_path, CUST, ORDERS).notices == ()
    write_bank(tmp_path / "ot", LATER[:1], len(HISTORY))
    assert applied(tmp_path, CUST, ORDERS).notices == ()  # a batch without one of the tables
    assert applied(tmp_path, CUST, ORDERS).notices == ()


def test_current_rows_and_every_change_in_one_run(tmp_path: Path) -> None:
    """INSERTALLRECORDS within one MAP statement, and between two."""
    write_bank(tmp_path / "ot", HISTORY[:6])
    seen = "@GETENV ('GGHEADER', 'OPTYPE')"
    within = [
        CUST,
        f"MAP bank.cust, TARGET b.cust_hist, INSERTALLRECORDS, COLMAP (USEDEFAULTS, op = {seen}, old = BEFORE.city);",
    ]
    toggled = [
        "INSERTALLRECORDS",
        "MAP bank.orders, TARGET b.orders_hist;",
        "NOINSERTALLRECORDS",
        ORDERS,
        "MAP bank.orders, TARGET b.big, WHERE (amount > 60);",
    ]
    lines = [*within, *toggled]
    applied(tmp_path, *lines)
    write_bank(tmp_path / "ot", HISTORY[6:], 6)
    applied(tmp_path, *lines, batch_bytes=1)

    file = tmp_path / "x.duckdb"
    assert (customers(tmp_path), orders(tmp_path)) == (CUST_ROWS, ORDER_ROWS)
    assert rows_of(file, "b.big", "order_id") == [(2,), (3,)]
    assert rows_of(file, "b.cust_hist", "_position <> '', cust_code, city, op, old, _op_type") == [
        (True, "ANN", "Moss", "SQL COMPUPDATE", "Oslo", "U"),
        (True, "ANN", "Oslo", "INSERT", None, "I"),
        (True, "BOB", "Rome", "DELETE", "Rome", "D"),
        (True, "BOB", "Rome", "INSERT", None, "I"),
        (True, "CAT", "Bergen", "INSERT", None, "I"),
    ]
    assert rows_of(file, "b.orders_hist", "order_id, _op_type") == [
        (1, "D"),
        (1, "I"),
        (2, "I"),
        (2, "U"),
        (3, "I"),
    ]
    params = str(tmp_path / "rep.prm")
    found = verify_tables(tmp_path / "ot", f"duckdb:{file}", params=params)
    assert found.is_equal
    assert {one.equal for one in found.tables.values()} == {2, 5}


def test_two_modes_of_one_target_are_refused(tmp_path: Path) -> None:
    write_bank(tmp_path / "ot")
    with pytest.raises(Exception, match=r"INSERTALLRECORDS differs from line 2.*b\.cust"):
        applied(tmp_path, CUST, "MAP bank.orders, TARGET b.cust, INSERTALLRECORDS;")


def test_a_target_that_takes_no_rows_of_a_mode_refuses_a_map(tmp_path: Path) -> None:
    write_bank(tmp_path / "ot")
    params = tmp_path / "rep.prm"
    params.write_text(f"{CUST}\nMAP bank.cust, TARGET b.h, INSERTALLRECORDS;")
    with pytest.raises(Exception, match="--mode current"):
        apply_trail(tmp_path / "ot", f"parquet:{tmp_path}/h", params=str(params))


def test_the_files_whole_group_is_known_by_its_name(tmp_path: Path) -> None:
    write_bank(tmp_path / "ot")
    applied(
        tmp_path,
        "MAP bank.cust, TARGET b.cust, COLMAP (USEDEFAULTS, g = @GETENV ('GGENVIRONMENT', 'GROUPNAME'));",
    )
    assert rows_of(tmp_path / "x.duckdb", "b.cust", "g")[0] == ("m4",)
    assert ANN["CITY"] == "Oslo"
