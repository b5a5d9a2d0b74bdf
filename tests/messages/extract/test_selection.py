"""TABLE statements over messages: which operations are captured, their keys, columns and tokens."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from message_cases import batch_of
from received_messages import ListFeed
from trailgate import capture_files
from trailgate.capture.capture import Capture, Parsed
from trailgate.errors import OptionError
from trailgate.jobs.capture.loading import load_with_notes
from trailgate.live.jobs.run import LiveCapture, ReceiveOptions
from trailgate.storage.live.appender import TrailAppender

DEFINITIONS = """\
Definition for table S.T
Record length: 120
Syskey: 0
Columns: 4
ID    64  10   0  0  0 1 0  10  10      0 0 0 0 0 1  0 1 0
NAME  64  60  16  0  0 1 0  60  60      0 0 0 0 0 1  0 0 0
PRICE 134 18  82  2  0 1 0   8   8      8 0 0 0 0 1  0 0 0
CITY  64  20  94  0  0 1 0  20  20      0 0 0 0 0 1  0 0 0
End of definition
Definition for table S.U
Record length: 16
Syskey: 0
Columns: 1
ID    64  10   0  0  0 1 0  10  10      0 0 0 0 0 1  0 1 0
End of definition
"""
PROPERTIES = """\
parser.type=delim
delim.sourcedefs=t.def
delim.header=optype,table,ts,owner,name
delim.optype=optype
delim.timestamp=ts
delim.schemaandtable=table
delim.txowner=owner
delim.txname=name
delim.hasbefores=true
delim.isgrouped=true
delim.hasnames=true
"""
INSERTS = (
    "I,S.T,2026-01-05 09:00:00,ann,nightly,ID,NAME,PRICE,CITY,,,,,a,JOE,1.50,ROME\n"
    "I,S.T,2026-01-05 09:00:00,ann,nightly,ID,NAME,PRICE,CITY,,,,,b,JIM,20,OSLO\n"
    "I,S.U,2026-01-05 09:00:00,ann,nightly,ID,,c\n"
)
UPDATE = "U,S.T,2026-01-05 09:00:00,ann,nightly,ID,NAME,PRICE,a,JOE,1.50,a,JIM,1.50\n"
DELETE = "D,S.T,2026-01-05 09:00:00,ann,nightly,ID,NAME,PRICE,CITY,a,JOE,1.50,ROME,,,,\n"
TRUNCATE = "T,S.T,2026-01-05 09:00:00,ann,nightly\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.def").write_text(DEFINITIONS)
    (tmp_path / "p.properties").write_text(PROPERTIES)
    return tmp_path


def capture_of(place: Path, *lines: str) -> Capture:
    text = "\n".join(["EXTRACT grp", "VAM lib, PARAMS p.properties", *lines])
    (place / "e.prm").write_text(text)
    return load_with_notes(extract=place / "e.prm").capture


def parsed_of(capture: Capture, messages: Sequence[str]) -> Parsed:
    return capture.parse(batch_of({"messages": list(messages)}))


def rows_of(capture: Capture, *messages: str) -> list[dict[str, Any]]:
    parsed = parsed_of(capture, messages)
    assert not parsed.problems
    rows: list[dict[str, Any]] = parsed.operations().to_pylist(maps_as_pydicts="strict")
    return rows


def taken(capture: Capture, *messages: str) -> list[tuple[str, str]]:
    """Return the operation types and ids of what is captured."""
    rows = rows_of(capture, *messages)
    images = [row["after"] or row["before"] or {} for row in rows]
    return [(row["op_type"], image.get("ID", "")) for row, image in zip(rows, images, strict=True)]


@pytest.mark.parametrize(
    ("table", "ids"),
    [
        ("TABLE S.*;", "abc"),
        ("TABLE S.T;", "ab"),
        ("TABLE S.T, FILTER (PRICE > 2);", "b"),
        ("TABLE S.T, WHERE (NAME = 'JOE');", "a"),
        ("TABLE S.T, FILTER (PRICE > 2), WHERE (NAME = 'JOE');", ""),
        ("TABLE S.T, FILTER (PRICE > 2);\nTABLE S.*;", "abc"),
        ("TABLE S.T, FILTER (PRICE > 2);\nTABLE S.T, FILTER (NAME = 'JOE');", "ab"),
        ("TABLE S.T, FILTER (ON UPDATE, PRICE > 2);", "ab"),
        ("TABLE S.T, FILTER (IGNORE INSERT, PRICE > 2);", "ab"),
        ("TABLE S.T, FILTER (@RANGE (1, 1));", "ab"),
        ("TABLE S.T, FILTER (@GETENV ('TRANSACTION', 'USERNAME') = 'bob');", ""),
        ("TABLE S.T, FILTER (@GETENV ('GGHEADER', 'OPTYPE') = 'INSERT');", "ab"),
        ("IGNOREINSERTS\nTABLE S.T;\nGETINSERTS\nTABLE S.U;", "c"),
        ("TABLEEXCLUDE S.U\nTABLE S.*;", "ab"),
        ("EXCLUDEUSER ANN\nTABLE S.*;", ""),
        ("EXCLUDEUSER bob\nTABLE S.*;", "abc"),
        ("TRANLOGOPTIONS EXCLUDETRANS nightly\nTABLE S.*;", ""),
    ],
)
def test_statements_take_operations(place: Path, table: str, ids: str) -> None:
    assert taken(capture_of(place, table), INSERTS) == [("I", one) for one in ids]


def test_every_range_has_its_rows_and_all_have_all(place: Path) -> None:
    message = "".join(
        INSERTS.split("\n", maxsplit=1)[0].replace(",a,", f",k{i},") + "\n" for i in range(40)
    )

    parts = [
        taken(capture_of(place, f"TABLE S.T, FILTER (@RANGE ({i}, 3));"), message)
        for i in (1, 2, 3)
    ]

    assert all(parts)
    assert sorted(itertools.chain(*parts)) == sorted(("I", f"k{i}") for i in range(40))


def test_the_kinds_of_operations_are_taken_apart(place: Path) -> None:
    messages = (INSERTS.split("\n", maxsplit=1)[0] + "\n", UPDATE, DELETE, TRUNCATE)
    kinds = {"INSERTS": "I", "UPDATES": "U", "DELETES": "D", "TRUNCATES": "T"}

    for name, letter in kinds.items():
        found = taken(capture_of(place, f"IGNORE{name}", "TABLE S.T;"), *messages)
        assert "".join(kind for kind, _ in found) == "IUDT".replace(letter, "")


def test_a_filter_uses_the_before_image_of_deletes_and_passes_truncates(place: Path) -> None:
    capture = capture_of(place, "TABLE S.T, FILTER (CITY = 'OSLO');")

    assert taken(capture, DELETE, TRUNCATE) == [("T", "")]


def test_a_condition_on_a_missing_column_is_an_error_of_its_message(place: Path) -> None:
    capture = capture_of(place, "TABLE S.T, FILTER (CITY = 'ROME');")

    parsed = parsed_of(capture, [INSERTS, UPDATE])

    assert [problem.message for problem in parsed.problems] == [1]
    text = str(parsed.problems[0].error)
    assert "FILTER cannot be decided: the message does not have CITY" in text
    assert "@PRESENT" in text


def test_another_condition_may_decide(place: Path) -> None:
    capture = capture_of(place, "TABLE S.T, FILTER (NAME = 'ANN' AND CITY = 'ROME');")
    tested = capture_of(place, "TABLE S.T, FILTER (CITY = @PRESENT AND CITY = 'ROME');")

    assert taken(capture, UPDATE) == taken(tested, UPDATE) == []


def test_before_values_are_named(place: Path) -> None:
    capture = capture_of(place, "TABLE S.T, FILTER (BEFORE.NAME <> NAME);")

    assert taken(capture, UPDATE) == [("U", "a")]


def test_the_condition_of_an_excluded_user_is_not_evaluated(place: Path) -> None:
    capture = capture_of(place, "EXCLUDEUSER ann", "TABLE S.T, FILTER (CITY = 'ROME');")

    assert taken(capture, UPDATE) == []


def test_keycols_are_the_key(place: Path) -> None:
    capture = capture_of(place, "TABLE S.T, KEYCOLS (NAME, CITY);")

    rows = rows_of(capture, DELETE)

    assert rows[0]["before"] == {"NAME": "JOE", "CITY": "ROME"}
    keys = [column.name for column in capture.definitions.table("S.T").columns if column.key]
    assert keys == ["NAME", "CITY"]


def test_a_changed_keycol_makes_a_key_update(place: Path) -> None:
    capture = capture_of(place, "TABLE S.T, KEYCOLS (NAME);")

    rows = rows_of(capture, UPDATE)

    assert (rows[0]["op_type"], rows[0]["before"]) == ("K", {"NAME": "JOE"})


@pytest.mark.parametrize("option", ["COLS (ID, PRICE)", "COLSEXCEPT (NAME, CITY)"])
def test_columns_are_left_out_and_may_still_be_filtered_by(place: Path, option: str) -> None:
    capture = capture_of(place, f"TABLE S.T, {option}, FILTER (NAME = 'JIM');")

    rows = rows_of(capture, INSERTS, DELETE.replace("JOE", "JIM"))

    assert [row["after"] or row["before"] for row in rows] == [
        {"ID": "b", "PRICE": "20.00"},
        {"ID": "a"},
    ]


def test_tokens_are_added_to_operations(place: Path) -> None:
    tokens = (
        "TX_OWNER = @GETENV ('TRANSACTION', 'USERNAME'), TKN-GROUP = @GETENV ('GGENVIRONMENT', 'GROUPNAME'),"
        " TKN-OP = @GETENV ('GGHEADER', 'OPTYPE'), TKN-IND = @GETENV ('GGHEADER', 'TRANSACTIONINDICATOR'),"
        " TKN-TS = @GETENV ('GGHEADER', 'COMMITTIMESTAMP'), TKN-BA = GGS_BEFORE_AFTER_IND, CITY = CITY,"
        " REGION = @GETENV ('OSVARIABLE', 'REGION')"
    )
    capture = capture_of(place, "SETENV (REGION = north)", f"TABLE S.T, TOKENS ({tokens});")

    rows = rows_of(capture, INSERTS, UPDATE)

    first = {
        "TX_OWNER": "ann",
        "TKN-GROUP": "grp",
        "TKN-OP": "INSERT",
        "TKN-IND": "BEGIN",
        "TKN-TS": "2026-01-05 09:00:00.000000",
        "TKN-BA": "AFTER",
        "CITY": "ROME",
        "REGION": "north",
    }
    assert rows[0]["tokens"] == first
    assert rows[1]["tokens"] == first | {"TKN-IND": "END", "CITY": "OSLO"}
    # The update has no CITY, so it has no such token.
    changed = {"TKN-OP": "SQL COMPUPDATE", "TKN-IND": "WHOLE"}
    assert rows[2]["tokens"] == {k: v for k, v in (first | changed).items() if k != "CITY"}


def test_a_length_is_null_until_its_record_is_written(place: Path) -> None:
    tokens = "A = 'a', LEN = @GETENV ('GGHEADER', 'RECORDLENGTH'), B = 'b'"
    capture = capture_of(place, f"TABLE S.T, TOKENS ({tokens});")

    rows = rows_of(capture, INSERTS, UPDATE)

    assert [row["tokens"] for row in rows] == [{"A": "a", "LEN": None, "B": "b"}] * 3


@pytest.mark.parametrize(
    ("lines", "says", "line"),
    [
        ("TABLE S.T, FILTER (NOWHERE = 1);", "no column NOWHERE", 3),
        (
            "TABLE S.T, FILTER (NAME = 1);",
            "the column NAME (text) and a number cannot be compared",
            3,
        ),
        ("TABLE S.*, KEYCOLS (NAME);", "no column NAME in table S.U", 3),
        ("TABLE S.T, COLS (NAME);", "the key column ID of S.T would be dropped", 3),
        ("TABLE S.T, COLSEXCEPT (ID);", "the key column ID of S.T would be dropped", 3),
        ("TABLE S.T, TOKENS (TRANID = 'x');", "the token TRANID has the name of one of", 3),
        ("TABLE S.T, TOKENS (A = NOWHERE);", "no column NOWHERE", 3),
        (
            "TABLE S.T, FILTER (ID = 'a');\nTABLE S.T, COLS (ID);",
            "the key, columns or tokens of S.T differ from those in line 3",
            4,
        ),
        (
            "TABLE S.T, FILTER (@GETENV ('TRANSACTION', 'CSN') = '1');",
            "CSN is known only after operations are selected",
            3,
        ),
        (
            "TABLE S.T, FILTER (@GETENV ('GGHEADER', 'RECORDLENGTH') > 9);",
            "RECORDLENGTH is known only when the record is written",
            3,
        ),
        (
            "TABLE S.T, TOKENS (A = @STRCAT ('of ', @GETENV ('GGHEADER', 'RECORDLENGTH')));",
            "RECORDLENGTH is known only when the record is written",
            3,
        ),
    ],
)
def test_what_does_not_fit_the_tables_is_an_error_when_loaded(
    place: Path, lines: str, says: str, line: int
) -> None:
    with pytest.raises(OptionError) as caught:
        capture_of(place, lines)

    assert says in caught.value.problem
    assert caught.value.where.source == str(place / "e.prm")
    assert caught.value.where.line == line


def test_users_cannot_be_excluded_without_txowner(place: Path) -> None:
    (place / "p.properties").write_text(PROPERTIES.replace("delim.txowner=owner\n", ""))

    with pytest.raises(OptionError, match="excluded by txowner, which the properties do not set"):
        capture_of(place, "EXCLUDEUSER bob")


def test_an_operation_without_a_user_has_that_of_its_transaction(place: Path) -> None:
    nobody = INSERTS.replace("ann", "", 2).replace(",,nightly", ",bob,nightly", 1)

    found = taken(capture_of(place, "EXCLUDEUSER bob", "TABLE S.*;"), nobody)

    assert found == [("I", "c")]


def test_the_user_of_a_transaction_is_not_that_of_operations_with_a_user(place: Path) -> None:
    """The transaction has no name, and its first operation an excluded user. The others are of somebody else."""
    message = INSERTS.replace("nightly", "").replace("ann", "bob", 1)

    assert taken(
        capture_of(place, "EXCLUDEUSER bob", "TRANLOGOPTIONS EXCLUDETRANS load", "TABLE S.*;"),
        message,
    ) == [("I", "b"), ("I", "c")]


def test_the_user_of_an_operation_that_is_not_captured_counts_for_its_transaction(
    place: Path,
) -> None:
    """The first two operations are of another table. Only the first one has a user."""
    message = INSERTS.replace("ann", "bob", 1).replace("ann", "")

    assert taken(capture_of(place, "EXCLUDEUSER bob", "TABLE S.U;"), message) == []
    assert taken(capture_of(place, "EXCLUDEUSER ann", "TABLE S.U;"), message) == [("I", "c")]
    # The next message is another transaction.
    again = INSERTS.replace("ann", "")
    assert taken(capture_of(place, "EXCLUDEUSER bob", "TABLE S.U;"), message, again) == [("I", "c")]


def test_a_transaction_is_that_of_its_first_operation_captured_or_not(place: Path) -> None:
    """So its ids are the same whether messages or indicators show where it begins and ends."""
    own = PROPERTIES.replace("owner,name", "owner,name,ind")
    own += "delim.seqid=*seqid\ndelim.txid=*txid\n"
    lines = [
        line.replace("nightly", f"nightly,{letter}")
        for line, letter in zip(INSERTS.splitlines(), "BME", strict=True)
    ]
    ids = []
    for more in ("", "delim.txind=ind\n"):
        (place / "p.properties").write_text(own + more)
        rows = rows_of(capture_of(place, "TABLE S.U;"), *["\n".join(lines)] * 2)
        ids.append([(row["tx_id"], row["csn"], row["tx_ind"]) for row in rows])

    assert ids[0] == ids[1]
    assert [one[1][-10:] for one in ids[0]] == ["0000000000", "0000000000"]


def test_a_live_capture_names_the_statements_that_match_no_table(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    capture, options = capture_of(place, "TABLE S.U;", "TABLE S.TT;"), ReceiveOptions()
    feed = ListFeed([INSERTS], [1])
    with (
        TrailAppender(str(place / "live"), capture.tables, options.append) as appender,
        closing(feed),
    ):
        live = LiveCapture(capture, feed, appender, str(place / "live"), options)
        note = "line 4, TABLE S.TT: no table of the messages fits; there are S.T, S.U. Did you mean S.T?"
        for _ in live.run():
            # At once: a capture that follows may run for months.
            assert note in caplog.messages
            break

    assert live.notes == (note,)


def test_rules_survive_pickling(place: Path) -> None:
    rules = "TABLE S.T, KEYCOLS (NAME), FILTER (@STRFIND (NAME, 'J') > 0), TOKENS (A = 'x');"
    capture = capture_of(place, rules)

    copy = pickle.loads(pickle.dumps(capture))

    assert copy.rules == capture.rules
    assert np.array_equal(parsed_of(copy, [INSERTS]).message, parsed_of(capture, [INSERTS]).message)


def test_a_user_is_excluded_from_later_messages_of_the_transaction(place: Path) -> None:
    text = PROPERTIES.replace("owner,name", "owner,name,ind") + "delim.txind=ind\n"
    (place / "p.properties").write_text(text)
    capture = capture_of(place, "EXCLUDEUSER bob", "TABLE S.U;")
    marks = [("bob", "B"), ("", "M"), ("ann", "M"), ("", "E"), ("ann", "B"), ("", "M"), ("", "E")]
    lines = [
        f"I,S.U,2026-01-05 09:00:00,{owner},n,{mark},ID,,{number}\n"
        for number, (owner, mark) in enumerate(marks)
    ]

    state, found = None, []
    for line in lines:
        parsed = capture.parse(batch_of({"messages": [line]}), state)
        state = parsed.state
        assert not parsed.problems
        rows = parsed.operations().to_pylist(maps_as_pydicts="strict")
        found += [(row["after"]["ID"], row["tx_ind"]) for row in rows]

    assert found == [("2", "W"), ("4", "B"), ("5", "M"), ("6", "E")]


def test_a_table_that_nothing_fits_is_noted_with_the_flag_that_captures_again(place: Path) -> None:
    (place / "in").mkdir()
    (place / "in/one.csv").write_text(INSERTS)
    lines = "EXTRACT grp\nVAM lib, PARAMS p.properties\nEXTTRAIL ot\n"
    (place / "e.prm").write_text(lines + "TABLE S.U;\nTABLE B.*;\nTABLE S.TT;")

    first = capture_files("in", "ot", extract="e.prm", message_per="line")

    assert first.notes == (
        "line 5, TABLE B.*: no table of the messages fits; there are S.T, S.U. The messages count as captured: after correcting the statement, capture them with --again",
        "line 6, TABLE S.TT: no table of the messages fits; there are S.T, S.U. Did you mean S.T? The messages count as captured: after correcting the statement, capture them with --again",
    )
    (place / "e.prm").write_text(lines + "TABLE S.*;")
    assert capture_files("in", "ot", extract="e.prm", message_per="line").operations == 0
    again = capture_files("in", "ot", extract="e.prm", message_per="line", again=True)
    assert (again.operations, again.notes) == (3, ())
