"""Functions and comparisons, each by a few rows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expressions.blocks import MISSING, block_of
from trailgate.columnar.strings import text_view
from trailgate.columnar.strings_kernels import hash_strings
from trailgate.errors import OptionError
from trailgate.expressions.capture_rules import CaptureRules, find_excluded, inherit_excluded
from trailgate.expressions.environment_items import ITEMS
from trailgate.expressions.evaluation import (
    evaluate_as_text,
    evaluate_condition,
    evaluate_with_missing,
)
from trailgate.expressions.parser import parse_condition, parse_value
from trailgate.expressions.values import GetenvValues
from trailgate.model.changes import DELETE, KEY_UPDATE, UPDATE, StateColumn

COLUMNS: dict[str, list[Any]] = {
    "ID": [1, 2, 3],
    "NAME": ["JOE", "Ünal JOE ", None],
    "CITY": ["ROME", "ROME  ", "OSLO"],
    "PRICE": [Decimal("1.50"), Decimal(2), None],
    "AMOUNT": ["1e3", "0001.50", "99999999999999999999999999999999999999.1"],
    "DAY": ["2026-01-05", "2026-01-06", None],
    "AT": ["2026-01-05 00:00:00.000000", "2026-01-06 10:00:00.500000", None],
    "RATE": [1.5, 0.1, None],
    "RAW": ["00FF", "", None],
    "BIG": [2**64 - 1, 1, 3],
}
BLOCK = block_of(COLUMNS, tx_owner=pa.array(["ann", "bob", None]))


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("CITY = 'ROME'", [0, 1]),
        ("CITY = 'ROME '", [0, 1]),
        ("NAME = 'Ünal JOE'", []),
        ("PRICE = 1.5", [0]),
        ("PRICE > 1.999999", [1]),
        ("AMOUNT = 1.5", [1]),
        ("AMOUNT > 99999999999999999999999999999999999999", [2]),
        ("BIG = 18446744073709551615", [0]),
        ("BIG > ID", [0]),
        ("ID < 1e30", [0, 1, 2]),
        ("DAY = '2026-01-05'", [0]),
        ("DAY = AT", [0]),
        ("AT > '2026-01-06 10:00:00'", [1]),
        ("RATE = 1.5", [0]),
        ("RATE < 1", [1]),
        ("RAW = '00ff'", [0]),
        ("@STRFIND (NAME, 'JOE') = 6", [1]),
        ("@STRFIND (NAME, 'JOE', 2) = 6", [1]),
        ("@STRFIND ('abcabc', 'c', 4) = 6", [0, 1, 2]),
        ("@STREQ (NAME, 'JOE')", [0]),
        ("@STREQ (CITY, 'ROME') = 1", [0, 1]),
        ("@STRCMP (NAME, 'K') = -1", [0]),
        ("@STRNCMP (NAME, 'JON', 2) = 0", [0]),
        ("@STRLEN (NAME) = 9", [1]),
        ("@STRUP (NAME) = 'ÜNAL JOE '", [1]),
        ("@STRTRIM (NAME) = 'Ünal JOE'", [1]),
        ("@STREXT (NAME, 2, 3) = 'OE'", [0]),
        ("@STRCAT (ID, '-', CITY) = '3-OSLO'", [2]),
        ("@COLTEST (NAME, NULL)", [2]),
        ("@COLTEST (NAME, PRESENT, MISSING) = 1", [0, 1]),
        ("@IF (ID > 1 AND NAME <> 'X', ID, 7) = 2", [1]),
        ("@IF (ID > 1, 'many', 'one') = 'many'", [1, 2]),
        ("@IF (ID = 1, PRICE, 0) = 1.5", [0]),
        ("@CASE (CITY, 'ROME', 'it', 'OSLO', 'no') = 'it'", [0, 1]),
        ("@CASE (ID, 1, 'a', 2, 'b', 'c') = 'c'", [2]),
        ("@EVAL (ID < 2, 'low', ID < 3, 'mid') = 'mid'", [1]),
        ("@STRLEN (@EVAL (ID < 2, 'low', 'rest')) = 4", [1, 2]),
        ("@VALONEOF (CITY, 'OSLO', 'PARIS')", [2]),
        ("@STRSUB (CITY, 'O', '0', 'S', '$') = '0$L0'", [2]),
        ("@NUMSTR (@STRCAT (' ', ID, '0 ')) = 20", [1]),
        ("@STRNUM (PRICE, RIGHTZERO, 6) = '001.50'", [0]),
        ("@STRNUM (ID, LEFTSPACE, 3) = '2  '", [1]),
        ("@STRNUM (ID, RIGHT, 3) = '  3'", [2]),
        ("@STRNUM (ID, LEFT) = '2'", [1]),
        ("ID * 2 + 1 = 5", [1]),
        ("ID - 1 - 1 = 1", [2]),
        ("(ID + 1) * 10 = 30", [1]),
        ("@COMPUTE (PRICE + 0.25) = 1.75", [0]),
        ("@STRCAT (PRICE * PRICE, '') = '2.25'", [0]),
        ("@STRCAT (PRICE * 2, '') = '4'", [1]),
        ("@STRCAT (-1 * PRICE, '') = '-1.5'", [0]),
        ("@STRCAT (PRICE - 1.5, '') = '0'", [0]),
        ("-7 \\ ID = -1", [1, 2]),
        ("ID \\ 2 = 1", [0, 2]),
        ("@COMPUTE (ID > 1 AND ID < 3)", [1]),
        ("@STRNUM (ID + ID, LEFT) = '6'", [2]),
        ("@DATE ('YYYYMMDD', 'YYYY-MM-DD', DAY) = '20260105'", [0]),
        ("@DATE ('DD MMM YY DOWA', 'YYYY-MM-DD', DAY) = '06 JAN 26 TUE'", [1]),
        ("@DATE ('DDD DOW0 DOW1 CC', 'YYYY-MM-DD', DAY) = '005 1 2 20'", [0]),
        ("@DATE ('JUL', 'YYYY-MM-DD', DAY) = 2461046", [0]),
        ("@DATE ('YYYY-MM-DD', 'JUL', @DATE ('JUL', 'YYYY-MM-DD', DAY)) = '2026-01-06'", [1]),
        ("@DATE ('YYYY', 'YYMMDD', '491231') = '2049'", [0, 1, 2]),
        ("@DATE ('YYYY-MM', 'YYDDD', '50032') = '1950-02'", [0, 1, 2]),
        ("@DATE ('YYYY', 'CCYYMMDD', '18991231') = '1899'", [0, 1, 2]),
        ("@DATE ('MI', 'YYYY-MM-DD HH:MI:SS.FFFFFF', AT) = '00'", [0, 1]),
        ("@DATE ('FFF', 'YYYY-MM-DD HH:MI:SS.FFFFFF', AT) = '500'", [1]),
        (
            "@DATE ('YYYY-MM-DD HH:MI:SS', 'DDMMMYYYY', '29FEB2024', 'HHMISS', '235959') = '2024-02-29 23:59:59'",
            [0, 1, 2],
        ),
        ("@DATEDIFF ('DD', '2026-01-01', DAY) = 4", [0]),
        ("@DATEDIFF ('dd', DAY, '2025-12-31') = -6", [1]),
        ("@DATEDIFF ('SS', '2026-01-05 00:00:01', @STREXT (AT, 1, 19)) = -1", [0]),
        ("@DATEDIFF ('SS', '2026-01-05 00:01', DAY) = -60", [0]),
        ("@DATEDIFF ('SS', '2024-02-28:23:59:58', '2024-03-01') = 86402", [0, 1, 2]),
        ("@COMPUTE (@DATEDIFF ('DD', '2026-01-05', DAY) + 1) = 2", [1]),
        ("@COLTEST (NAME, NULL) AND @STRLEN (@TOKEN ('T')) = 1", []),
        ("@GETENV ('TRANSACTION', 'USERNAME') = 'bob'", [1]),
        ("GGS_TRANS_TIMESTAMP = '2026-01-05 09:00:00.000000'", [0, 1, 2]),
        ("@BEFORE (NAME) = @ABSENT", [0, 1, 2]),
        ("@STRNCAT (CITY, 2, '-', 1, ID, 5) = 'OS-3'", [2]),
        ("@BINTOHEX (RAW) = '00FF'", [0]),
        ("@BEFOREAFTER (ID) = 2", [1]),
        ("NAME = 'JOE' OR NOT (ID = 1)", [0, 1, 2]),
        ("ID", [0, 1, 2]),
        ("'1' = '1'", [0, 1, 2]),
        ('"ID" = 2', [1]),
    ],
)
def test_a_condition_selects_rows(condition: str, rows: list[int]) -> None:
    found = evaluate_condition(parse_condition(condition), BLOCK)

    assert np.flatnonzero(found.selected).tolist() == rows
    assert not found.undecided.any()


@pytest.mark.parametrize(
    ("text", "says", "place"),
    [
        ("NAME = 5", "the column NAME (text) and a number cannot be compared", 5),
        ("ID = 'x'", "'x' is not a number", 3),
        ("DAY = 'soon'", "'soon' is not a value of the column DAY", 4),
        ("NAME = DAY", "cannot be compared", 5),
        ("RAW = 'xyz'", "'xyz' is not hexadecimal", 4),
        ("ID / 2 > 1", "division is not supported", 3),
        ("ID * NAME > 1", "the column NAME is not a number", 3),
        ("RATE * 2 > 1", "the column RATE is not a number", 5),
        ("(ID = 1) + 1 = 2", "a condition is not a number", 4),
        ("ID \\ 0 = 2", "remainder of a division by 0", 3),
        ("PRICE \\ 2 = 1", "a remainder needs two integers", 6),
        ("BIG * BIG > 1", "more than 17", 4),
        ("ID * 99999999999999999 > 1", "a result has more than 17 digits", 3),
        ("@DATE ('YYYY', 'YYYY') = 'x'", "@DATE takes at least 3", 0),
        ("@DATE ('YYYY', DAY, DAY) = 'x'", "@DATE takes a descriptor", 15),
        ("@DATE ('JTS', 'YYYY', DAY) = 1", "@DATE does not support JTS", 7),
        ("@DATE ('YYYY', 'DOWA', DAY) = 1", "@DATE can write DOWA but not read it", 15),
        (
            "@DATE ('HH', 'YYYY-MM-DD', DAY) = '1'",
            "HH does not follow from the parts that @DATE reads",
            0,
        ),
        ("@DATE ('YYYY', 'YYYYMMDD', DAY) = '1'", "'2026-01-05' is not YYYYMMDD", 0),
        ("@DATE ('DD', 'YYYYMMDD', '20260230') = '1'", "'20260230' is not a day", 0),
        ("@DATE ('SS', 'HHMISS', '120061') = '1'", "'120061' is not a time with SS", 0),
        ("@DATEDIFF ('HH', DAY, DAY) = 1", "expected 'DD' or 'SS'", 11),
        ("@DATEDIFF ('SS', DAY, AT) = 1", "'2026-01-06 10:00:00.500000' is not YYYY", 0),
        ("@DATEDIFF ('DD', '2026-02-30', DAY) = 1", "'2026-02-30' is not a day", 0),
        ("@DATEDIFF ('SS', '2026-02-03 24:00', DAY) = 1", "a time with HH up to 23", 0),
        ("@DATEDIFF ('SS', '26-01-05', DAY) = 1", "'26-01-05' is not YYYY-MM-DD[ HH:MI[:SS]]", 0),
        (
            "@DATEDIFF ('DD', '2026-01-04 23:00', DAY) = 1",
            "how many days 1 hours between two dates are",
            0,
        ),
        ("@DATENOW () = '2026-01-05'", "@DATENOW would differ from run to run", 0),
        ("@DATENOW (DAY) = '2026-01-05'", "@DATENOW takes 0 arguments, not 1", 0),
        ("(ID = 1) = 1", "a condition cannot be compared", 4),
        ("S.NAME = 'x'", "a column must be named without its table", 0),
        ("@RANGE (4, 3)", "range 4 is not one of 3", 8),
        ("@STRFIND (NAME, CITY)", "expected a literal", 16),
        ("@STRFOUND (NAME, 'x')", "unknown function @STRFOUND", 0),
        ("@GETVAL (lookup.name) = 'x'", "@GETVAL is not supported: stored procedures", 0),
        ("@BINTOHEX (NAME) = 'x'", "@BINTOHEX takes a column of bytes", 0),
        ("@STRNCAT (NAME, 2, CITY) = 'x'", "@STRNCAT takes pairs", 0),
        ('NAME = "JOE"', "no column JOE", 7),
        ("@GETENV ('TRANSACTION', 'USRNAME') = 'x'", "@GETENV does not know 'USRNAME'", 0),
        ("@GETENV ('LAG', 'SEC') = 'x'", "@GETENV does not support LAG", 0),
        (
            "@GETENV ('GGFILEHEADER', 'COMPATIBILITY') = '4'",
            "it describes a file, not an operation",
            0,
        ),
        ("@COLTEST (NAME, EMPTY)", "expected one of PRESENT, NULL, MISSING, INVALID", 16),
        ("NAME < @NULL", "@NULL can only be compared by = or <>", 5),
        ("ID = 1" + "0" * 40, "more than 38 digits", 3),
    ],
)
def test_an_error_has_a_caret_below_its_place(text: str, says: str, place: int) -> None:
    with pytest.raises(OptionError) as caught:
        evaluate_condition(parse_condition(text), BLOCK)

    assert says in caught.value.problem
    shown, caret = caught.value.hint.splitlines()[-2:]
    assert caret.index("^") - shown.index(text[:4]) == place


def test_columns_of_deletes_are_those_of_the_before_image() -> None:
    block = block_of({}, {"ID": [7, 8]}, DELETE)

    assert evaluate_condition(parse_condition("ID = 8"), block).selected.tolist() == [False, True]
    assert evaluate_condition(parse_condition("AFTER.ID = 8"), block).undecided.tolist() == [
        True,
        True,
    ]


def test_values_are_text_as_it_is_shown_elsewhere() -> None:
    found = {name: evaluate_as_text(parse_value(name), BLOCK).to_pylist() for name in COLUMNS}

    assert found["PRICE"] == ["1.50", "2.00", None]
    assert found["ID"] == ["1", "2", "3"]
    assert found["NAME"] == COLUMNS["NAME"]
    assert evaluate_as_text(parse_value("BEFORE.NAME"), BLOCK).to_pylist() == [None] * 3


def test_a_difference_is_missing_or_null_where_a_date_is() -> None:
    block = block_of({"DAY": ["2026-01-05", None, MISSING]})
    found = evaluate_with_missing(parse_value("@DATEDIFF ('DD', '2026-01-01', DAY)"), block)

    assert found.values is not None
    assert found.values.to_pylist() == ["4", None, None]
    assert found.is_missing(3).tolist() == [False, False, True]


def test_the_time_of_applying_is_that_of_the_environment() -> None:
    around = GetenvValues(now="2026-01-06 10:30:00")
    expression = "@STRCAT (@DATEDIFF ('DD', DAY, @DATENOW ()), ' days at ', @DATENOW ())"
    found = evaluate_as_text(parse_value(expression), BLOCK, around).to_pylist()

    text = "days at 2026-01-06 10:30:00"
    assert found == [f"1 {text}", f"0 {text}", None]
    late = evaluate_condition(parse_condition("AT < @DATENOW ()"), BLOCK, around)
    assert late.selected.tolist() == [True, True, False]


def test_every_item_of_the_environment_gives_text() -> None:
    for group, items in ITEMS.items():
        for item, row in items.items():
            kind = "REPLICAT" if row.of_trails else "EXTRACT"
            around = GetenvValues(
                "grp", "host", "user", group_type=kind, is_whole_token=row.of_records
            )
            found = evaluate_as_text(parse_value(f"@GETENV ('{group}', '{item}')"), BLOCK, around)
            assert (len(found), found.type) == (len(BLOCK), pa.string())


def test_key_updates_have_their_name() -> None:
    block = block_of({"ID": [1]}, kind=KEY_UPDATE)

    assert evaluate_as_text(parse_value("GGS_OP_TYPE"), block).to_pylist() == ["PK UPDATE"]


def test_ranges_part_all_rows_the_same_way_everywhere() -> None:
    keys = [str(n) for n in range(1000)]
    block = block_of({"NAME": keys, "ID": list(range(1000)), "AMOUNT": [f"0{n}.0" for n in keys]})
    parts = [
        [
            evaluate_condition(parse_condition(f"@RANGE ({i}, 4, {name})"), block).selected
            for i in (1, 2, 3, 4)
        ]
        for name in ("NAME", "ID", "AMOUNT")
    ]

    for one in parts:
        assert (np.sum(one, axis=0) == 1).all()
        assert all(150 < part.sum() < 350 for part in one)
    # The bytes "1" and "2" always have these numbers.
    assert _hashes(["1", "2", ""]) == [16777669, 16777670, 1]


def _hashes(values: list[str]) -> list[int]:
    offsets, data = text_view(pa.array(values))
    found = np.empty(len(values), np.int64)
    hash_strings(data, offsets, found)
    return found.tolist()


def test_a_missing_key_leaves_the_range_open() -> None:
    block = block_of({"ID": [1, MISSING]})

    assert evaluate_condition(parse_condition("@RANGE (1, 2)"), block).undecided.tolist() == [
        False,
        True,
    ]


def test_the_range_of_a_missing_key_is_null_as_text() -> None:
    block = block_of({"ID": [1, MISSING]})

    first, second = (
        evaluate_as_text(parse_value(f"@RANGE ({i}, 2)"), block).to_pylist() for i in (1, 2)
    )

    assert {first[0], second[0]} == {"0", "1"}
    assert first[1] is second[1] is None


def test_a_value_that_a_missing_column_decides_is_missing() -> None:
    block = block_of({"ID": [1, 2, 3], "NAME": ["a", MISSING, None]})
    chosen = evaluate_with_missing(parse_value("@IF (NAME = 'a', 'yes', 'no')"), block)
    assert chosen.is_missing(3).tolist() == [False, True, False]
    assert chosen.values is not None
    assert [chosen.values.to_pylist()[at] for at in (0, 2)] == ["yes", "no"]
    only = evaluate_with_missing(parse_value("@IF (ID = 1, NAME, 'else')"), block)
    assert only.is_missing(3).tolist() == [False, False, False]
    states = [
        evaluate_with_missing(parse_value(f"@COLSTAT ({one})"), block)
        for one in ("NULL", "MISSING")
    ]
    assert [one.is_missing(3).any() for one in states] == [False, True]


@pytest.mark.parametrize(
    "text",
    [
        "@STRUP (ID = 1)",
        "@EVAL (ID = 1, 'a', ID = 2)",
        "@COLSTAT (INVALID)",
        "@STRSUB (NAME, 'a')",
        "@STRNUM (ID, RIGHT)",
        "@STRNUM (ID, MIDDLE, 3)",
        "@STRNUM (ID, RIGHT, 99999999)",
    ],
)
def test_wrong_arguments_of_a_function_are_an_error(text: str) -> None:
    with pytest.raises(OptionError):
        parse_value(text)


@pytest.mark.assumed
def test_functions_without_a_default_give_null() -> None:
    for text in ("@CASE (ID, 1, 'a')", "@EVAL (ID = 1, 'a')"):
        assert evaluate_as_text(parse_value(text), BLOCK).to_pylist() == ["a", None, None]


@pytest.mark.assumed
def test_a_number_that_is_longer_than_its_text_is_kept_whole() -> None:
    whole = evaluate_as_text(parse_value("@STRNUM (AMOUNT, RIGHT, 2)"), BLOCK)
    assert whole.to_pylist() == COLUMNS["AMOUNT"]
    negative = evaluate_as_text(parse_value("@STRNUM (-1.27, RIGHTZERO, 7)"), BLOCK)
    assert negative.to_pylist() == ["-001.27"] * 3


def test_either_image_gives_a_column() -> None:
    """@BEFOREAFTER gives the value before where the record has it, else the one after."""
    block = block_of({"ID": [1, 2], "NAME": ["new", "other"]}, kind=UPDATE)
    name = block.table.index("NAME")
    missing = np.array([False, True])
    known = StateColumn(pa.array(["old", None], pa.string()), missing)
    before = tuple(known if at == name else one for at, one in enumerate(block.before))
    found = evaluate_as_text(parse_value("@BEFOREAFTER (NAME)"), replace(block, before=before))
    assert found.to_pylist() == ["old", "other"]


def test_literals_in_double_quotes_are_read_where_the_file_says_so() -> None:
    found = evaluate_condition(
        parse_condition("NAME = \"JOE\" AND CITY <> 'X'", ansi_quotes=False), BLOCK
    )
    assert np.flatnonzero(found.selected).tolist() == [0]
    with pytest.raises(OptionError) as caught:
        evaluate_condition(parse_condition('NAME = "JOE"'), BLOCK)
    assert "Write a literal in single quotes, 'JOE', or NOUSEANSISQLQUOTES" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "@DATE ('DD', 'YYYY-MM-DD HH:MI:SS', AT) = '1'",
            "YYYY-MM-DD HH:MI:SS.FFFFFF reads the fraction of a second, and @STREXT (..., 1, 19) removes it",
        ),
        ("@DATE ('DD', 'YYYY-MM-DD', AT) = '1'", "@STREXT (..., 1, 10) is the part"),
        (
            "@DATE ('DD', 'YYYY-MM-DD HH:MI:SS', '2026-01-05 10:00:00.123456789') = '1'",
            "@STREXT (..., 1, 19) is the part",
        ),
        ("@DATE ('DD', 'YYYY-MM-DD.FFFFFF', DAY) = '1'", "Write one F for each digit"),
        ("@DATE ('SS.FFFFFFFFF', 'YYYY-MM-DD', DAY) = '1'", "F to FFFFFF are digits of a second"),
    ],
)
def test_an_error_of_dates_states_what_reads_the_value(text: str, hint: str) -> None:
    with pytest.raises(OptionError) as caught:
        evaluate_condition(parse_condition(text), BLOCK)

    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("@IF (NAME = 'a', 'yes', 'no')", ["yes", None, "no"]),
        ("@COMPUTE (NAME = 'a')", ["1", None, "0"]),
        ("@VALONEOF (NAME, 'a', 'b')", ["1", None, "0"]),
        ("@EVAL (NAME = 'a', 1, ID > 0, 2)", ["1", None, "2"]),
        ("@CASE (NAME, 'a', 'first', 'other')", ["first", None, "other"]),
        ("@RANGE (1, 1, NAME)", ["1", None, "1"]),
        ("@IF (@COLTEST (NAME, MISSING), 'none', NAME)", ["a", "none", "c"]),
        ("@IF (ID > 0, 'yes', NAME)", ["yes"] * 3),
    ],
)
def test_a_text_that_a_missing_column_decides_is_null(text: str, values: list[object]) -> None:
    """As in user tokens: a value that cannot be known is not invented."""
    block = block_of({"ID": [1, 2, 3], "NAME": ["a", MISSING, "c"]})
    assert evaluate_as_text(parse_value(text), block).to_pylist() == values
    column = evaluate_with_missing(parse_value(text), block)
    assert column.values is not None
    assert column.values.to_pylist() == values


@given(
    st.lists(st.tuples(*[st.sampled_from([None, "", "Ann", "bob"])] * 2), min_size=1),
    st.lists(st.integers(0, 9), min_size=1),
)
def test_a_name_that_an_operation_lacks_is_that_of_its_transactions_first_one(
    operations: list[tuple[str | None, str | None]], firsts: list[int]
) -> None:
    """The user and the name of the transaction each by itself."""
    first = [min(firsts[i % len(firsts)], i) for i in range(len(operations))]
    rules = CaptureRules(users=("ann",), transactions=("ann",))
    expected = [
        any(
            (own or operations[at][which] or "").lower() == "ann" for which, own in enumerate(names)
        )
        for names, at in zip(operations, first, strict=True)
    ]

    owners, names = ([one[which] for one in operations] for which in (0, 1))
    flags = find_excluded(rules, pa.array(owners, pa.string()), pa.array(names, pa.string()))

    assert flags is not None
    assert inherit_excluded(flags, flags[first]).tolist() == expected
