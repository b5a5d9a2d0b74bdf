"""Each filter leaves the records it should; options are typed as the reference has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdump.sessions import answers, offsets, opened
from logdump.trails import TRAILS, dml, ids, joined
from trailgate.logdump.filter_options import OPTIONS, OPTIONS_BY_NAME
from trailgate.logdump.results import FailureResult

RECORDS = [583, 630, 783, 873, 959, 1036, 1146, 1258, 1352, 1446, 1535, 1610, 1743]
FIRST = RECORDS[1:5]  # the transaction of LOGCSN 100
# The text after FILTER, and the RBAs of the records that are shown.
CASES: dict[str, list[int]] = {
    "RECTYPE 5": [630, 959, 1352],
    "IOTYPE Insert, delete": [630, 959, 1258, 1352],
    "INCLUDE FILENAME MY.NOTES": [959, 1535],
    "FILENAME my.n*, NOSUCH": [959, 1535],
    "FILENAME MY.NOTE?": [959, 1535],
    "FILENAME MY.NOTE": [],
    "FILENAME [A-Z]*": [],
    "EXCLUDE FILENAME MY.*": [583, 1610],
    "EXC RECTYPE 15": [rba for rba in RECORDS if rba not in (783, 873)],
    "TRANSID 1.2.3": FIRST,
    "TRANSID 1.2.7": [1352, 1446],
    'TRANSID "1.2.3"': FIRST,
    "CSN 100": FIRST,
    "CSN = 0300": [1352, 1446],
    "LOGCSN >= 202": [1258, 1352, 1446, 1535, 1610],
    "CSN LT 201": [*FIRST, 1036],
    "IMAGE BEFORE": [783, 1258],
    "IBEFORE": [783, 1258],
    "IAFTER": [rba for rba in RECORDS if rba not in (783, 1258)],
    "STARTTIME 2026-01-01 00:04:00": RECORDS[8:],
    "ENDTIME 26-01-01 00:00:01": [583, 630],
    'STRING "cups"': [630, 783],
    "STRING /cups/ 0:21": [],
    "STRING /cups/ 22:25": [783],
    'STRING BOTH "CUPS"': [630, 783],
    'STRING "CUPS"': [],
    'STRING "two", "large"': [630, 1446],
    "HEX 0000FFFF": [],
    "HEX ffff0000": [873],
    'HEX "6c61", "6e6f74"': [1446, 1743],
    "HEX 0000 0:1": [630, 783, 873, 959, 1146, 1258, 1352, 1446],
    "INT16 -1": [873],
    "INT32 2 0:3": [1446],
    "INT64 9": [959],
    "GGSTOKEN LOGCSN": [630, 1036, 1146, 1258, 1352, 1535, 1610],
    "GGSTOKEN TRANID = 1.2.6": [1258],
    "GGSTOKEN L > 300": [1535, 1610],
    "GGSTOKEN x52": [630],
    "USERTOKEN TKN-HOST": [630],
    "USERTOKEN tkn-host = syshq": [630],
    "USERTOKEN TKN-HOST <> syshq": [],
    "COLUMN 1": [630, 783, 873],
    "COLUMN 1 = cups": [783],
    "COLUMN 0 = 9": [959],
    "COLUMN 1 = NULL": [873],
    "RBA > 1535": [1610, 1743],
    "RBA 0x277": [],
    "RBA 630": [630],
    "RECLEN >= 32": [1146, 1610],
    "RECLEN 30 GE": [630, 1036, 1146, 1610],
    "TRANSIND 0": [630, 1352],
    "TRANSIND LAST": [959, 1446],
    "TRANSIND < 2": [630, 783, 873, 1352],
    "UNDOFLAG 1": [],
    "AUDITRBA 86 <>": [583, 1535, 1610, 1743],
    "AUDITPOS 0": RECORDS,
    "SYSKEY 1": [],
    "SYSKEYLEN 0": RECORDS,
}
REFUSED = [
    "PROCESS $X",
    "RECTYPE NOSUCH",
    "RECTYPE 256",
    "RECTYPE",
    "NOSUCH 1",
    "CSN > < 1",
    "CSN 1 < 2",
    "TRANSID a<b",
    "HEX 0",
    "HEX",
    "STRING",
    "GGSTOKEN NOSUCH",
    "RBA one",
    "RBA 1 2",
    "RBA =! 1",
    "COLUMN 70000",
    "STARTTIME noon",
    "STRING /a/ x:y",
    "INT16 99999",
    "MATCH SOME",
    "CLEAR 7",
]


@pytest.mark.parametrize("typed", CASES)
def test_a_filter_leaves_what_matches(typed: str, tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())

    results = answers(session, f"FILTER {typed}", "N 20")

    assert offsets(results) == CASES[typed]


@pytest.mark.parametrize("typed", CASES)
def test_a_filter_leaves_the_same_backward(typed: str, tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())

    results = answers(session, f"FILTER {typed}", "POS EOF", "POS REVERSE", "N 20")

    assert offsets(results) == CASES[typed][::-1]


@pytest.mark.parametrize("typed", REFUSED)
def test_a_wrong_filter_is_refused_and_changes_nothing(typed: str, tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())
    before = session.filters

    (result,) = answers(session, f"FILTER {typed}")

    assert isinstance(result, FailureResult)
    assert session.filters == before


def test_a_quoted_value_is_taken_as_it_is(tmp_path: Path) -> None:
    records = [dml(5, b"", second, tokens=ids("1", name)) for second, name in enumerate("abc")]
    records += [dml(5, b"", 9, tokens=ids("2", name)) for name in ("a<b", "<", "a b")]
    session = opened(tmp_path, joined(records))

    starts = offsets(answers(session, "N 20"))
    assert len(starts) == len(records)
    for typed, expected in {
        '"a<b"': starts[3:4],
        "= 'a<b'": starts[3:4],
        '"a<b" EQ': starts[3:4],
        '"<"': starts[4:5],
        '<= "a<b"': [starts[at] for at in (0, 3, 4, 5)],
        "a b": starts[5:],
    }.items():
        results = answers(session, "FILTER CLEAR", f"FILTER TRANSID {typed}", "POS 0", "N 20")
        assert offsets(results) == expected, typed


def test_a_comparison_between_two_values_has_a_hint(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())

    (result,) = answers(session, "FILTER TRANSID a<b")

    assert isinstance(result, FailureResult)
    assert "a comparison is between 'a' and 'b'" in str(result.error)
    assert "put quotes around the value" in str(result.error)


def test_every_option_has_a_case() -> None:
    tried = {
        OPTIONS_BY_NAME[word.upper()].names
        for typed in (*CASES, *REFUSED)
        for word in typed.split()
        if word.upper() in OPTIONS_BY_NAME
    }

    assert {option.names for option in OPTIONS} == tried


def test_match_decides_whether_one_criterion_suffices(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())
    both = "FILTER RECTYPE 5; FILTER RECLEN 30"

    assert offsets(answers(session, both, "N 20")) == [630]
    assert offsets(answers(session, "FILTER MATCH ANY", "POS 0", "N 20")) == [630, 959, 1036, 1352]
    exclude = "FILTER CLEAR; FILTER EXC RECTYPE 5; FILTER EXC RECLEN 30; FILTER EXC MATCH ALL"
    left = offsets(answers(session, exclude, "POS 0", "N 20"))
    assert left == [rba for rba in RECORDS if rba != 630]


def test_criteria_of_one_option_add_up(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())

    results = answers(session, "FILTER RECTYPE 3", "FILTER RECTYPE 100", "N 20")

    assert offsets(results) == [1258, 1535]


def test_a_transaction_is_known_from_its_middle_on(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())

    results = answers(session, "FILTER CSN 100", "POS 873", "N 20")

    assert offsets(results) == [873, 959]
