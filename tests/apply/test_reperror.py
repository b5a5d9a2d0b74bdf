"""REPERROR by the numbers of Oracle's errors: each error of an operation has the response of its own number, and what would be answered otherwise is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any, Literal

import duckdb
import pytest

from apply.sources import write_log
from apply.test_net_effects import history
from apply.test_replicat import applied, inserted, rows
from laws import chance, examples
from oracles.apply_naive import Operation
from trailgate import ApplyError, DecodeError, OptionError, apply_trail
from trailgate.apply.effects.operation_errors import NUMBERS, ErrorResponses
from trailgate.apply.replicat.replicat_files import POLICIES, parse_replicat

MAP = "MAP hr.t, TARGET hr.t;"
COLUMNS = "id BIGINT PRIMARY KEY, a TINYINT CHECK (a >= 0), b BIGINT NOT NULL, c DECIMAL(4,1)"


def parameters(*responses: str, group: str = "r") -> str:
    lines = [f"REPERROR ({one})" for one in responses]
    return "\n".join([f"REPLICAT {group}", *lines, MAP])


def reasons(folder: Path, group: str = "r") -> list[str]:
    path = folder / f"{group}.discards.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["reason"] for line in lines]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_missing_row_and_a_duplicate_one_have_their_own_responses(folder: Path) -> None:
    log = [
        inserted(1, 1),
        inserted(1, 2, a=9),
        Operation("U", 7, 7, {"a": 4}, 3),
        inserted(2, 4),
        Operation("K", 1, 2, {}, 5),
    ]
    report = applied(folder, parameters("1, IGNORE", "1403, DISCARD"), log)

    assert rows(folder, "hr.t") == [(1, 1, 2, 3), (2, 1, 2, 3)]
    assert reasons(folder) == ["update of id=7: the row does not exist"]
    assert dict(report.reasons) == {
        "the row already exists": 1,
        "the row does not exist": 1,
        "two rows have this key": 1,
    }


def test_an_error_of_another_number_has_the_default(folder: Path) -> None:
    log = [inserted(1, 1), inserted(1, 2), Operation("D", 7, 7, {}, 3)]
    with pytest.raises(ApplyError, match="delete of id=7: the row does not exist"):
        applied(folder, parameters("DEFAULT, DISCARD", "1403, ABEND"), log)
    applied(folder, parameters("DEFAULT, DISCARD", "1, IGNORE"), [])

    assert reasons(folder) == ["delete of id=7: the row does not exist"]


def test_a_transaction_goes_for_one_number_and_an_operation_for_another(folder: Path) -> None:
    log = [
        inserted(1, 1),
        inserted(2, 2),
        inserted(1, 2),
        inserted(3, 3),
        Operation("U", 8, 8, {"a": 4}, 3),
        Operation("U", 9, 9, {"a": 4}, 4),
        inserted(4, 5),
        inserted(1, 5),
        Operation("D", 9, 9, {}, 5),
    ]
    applied(folder, parameters("1, TRANSDISCARD", "1403, IGNORE"), log)

    assert rows(folder, "hr.t", "id") == [(1,), (3,)]
    other = "another operation of its transaction cannot be applied"
    assert reasons(folder) == [
        other,
        "insert of id=1: the row already exists",
        other,
        "insert of id=1: the row already exists",
        "delete of id=9: the row does not exist",
    ]


@pytest.mark.parametrize(
    ("numbers", "values"),
    [
        (("1438",), {"a": 300}),
        (("1438",), {"c": 12345}),
        (("2290",), {"a": -1}),
        (("1400", "1407"), {"b": None}),
    ],
)
def test_refusals_of_the_target_have_their_error_number(
    folder: Path, numbers: tuple[str, ...], values: dict[str, Any]
) -> None:
    with duckdb.connect("x.duckdb") as connection:
        connection.execute("CREATE SCHEMA x.hr").fetchall()
        connection.execute(f"CREATE TABLE x.hr.t ({COLUMNS})").fetchall()
    log = [inserted(1, 1), inserted(2, 2, **values), inserted(3, 3)]
    discarded = parameters(*(f"{number}, DISCARD" for number in numbers))
    stopped = parameters("DEFAULT, DISCARD", *(f"{number}, ABEND" for number in numbers), group="s")
    with pytest.raises((ApplyError, DecodeError), match=r"refuses|cannot hold"):
        applied(folder, stopped, log)
    assert reasons(folder, "s") == []
    connection = duckdb.connect("x.duckdb")
    connection.execute("DELETE FROM x.hr.t").fetchall()  # what halves before it have done
    connection.close()
    applied(folder, discarded, [])

    assert rows(folder, "hr.t", "id") == [(1,), (3,)]
    assert len(reasons(folder)) == 1


def test_digits_after_the_point_are_not_too_large_a_number(folder: Path) -> None:
    """Oracle rounds them, and has no error for them: the response to all errors is the same."""
    with duckdb.connect("x.duckdb") as connection:
        connection.execute("CREATE SCHEMA x.hr").fetchall()
        connection.execute("CREATE TABLE x.hr.t (id BIGINT, a DECIMAL(4,1))").fetchall()
    parameter = "REPLICAT r\nREPERROR (1438, DISCARD)\nMAP hr.t, TARGET hr.t, COLMAP (id = id, a = @STRCAT (a, '.25'));"
    with pytest.raises(DecodeError, match="cannot hold this value"):
        applied(folder, parameter, [inserted(1, 1)])
    applied(folder, parameter.replace(".25", "999.5"), [])
    assert len(reasons(folder)) == 1


@pytest.mark.parametrize("response", ["DISCARD", "IGNORE", "TRANSDISCARD"])
def test_all_numbers_with_one_response_are_the_default(folder: Path, response: str) -> None:
    """A property: logs that lost some operations, and have some twice."""
    numbers = [str(number) for group in NUMBERS for number in group]
    policy: Literal["discard", "discard-transaction", "ignore"] = POLICIES[response]  # type: ignore[assignment]
    for round_ in range(examples(8)):
        own = chance(f"reperror {response} {round_}")
        log = [
            one for one in history(own, 12).log for _ in range(own.choice((0, 1, 1, 1, 1, 1, 1, 2)))
        ]
        place = folder / str(round_)
        place.mkdir()
        write_log(place / "ot", log)
        (place / "n.prm").write_text(parameters(*(f"{one}, {response}" for one in numbers)))
        own_file = {} if policy == "ignore" else {"discards": str(place / "y.jsonl")}
        for name, options in (
            ("x", {"params": str(place / "n.prm"), "discards": str(place / "x.jsonl")}),
            ("y", {"on_error": policy} | own_file),
        ):
            apply_trail(place / "ot", f"duckdb:{place}/{name}.duckdb", **options)  # type: ignore[arg-type]
        with duckdb.connect(str(place / "y.duckdb")) as connection:
            expected = connection.sql("SELECT * FROM y.hr.t ORDER BY ALL").fetchall()
        assert rows(place, "hr.t") == expected, log
        texts = [(place / f"{name}.jsonl") for name in "xy"]
        assert [one.read_text() if one.exists() else "" for one in texts[:1]] == [
            one.read_text() if one.exists() else "" for one in texts[1:]
        ]


def test_the_response_without_an_exceptions_map_is_that_of_default2() -> None:
    given = "REPERROR (DEFAULT, EXCEPTION)\nREPERROR (DEFAULT2, DISCARD)"
    assert parse_replicat(f"{given}\n{MAP}").on_error == "discard"
    found = parse_replicat(parameters("DEFAULT2, DISCARD", "DEFAULT, IGNORE", "60, IGNORE"))
    assert found.on_error == "ignore"
    assert [(one.line, one.reason) for one in found.unused] == [
        (2, "it applies only if the response to DEFAULT is EXCEPTION"),
        (4, "the response to all errors is the same"),
    ]


def test_reset_clears_earlier_settings() -> None:
    given = "REPERROR (1403, IGNORE)\nREPERROR (DEFAULT, DISCARD)\nREPERROR RESET\nREPERROR (00001, DISCARD)"
    found = parse_replicat(f"{given}\n{MAP}")
    assert (found.on_error, dict(found.responses)) == ("stop", {1: "discard"})
    assert parse_replicat(MAP).on_error is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("REPERROR (1722, DISCARD)", r"\(1722, DISCARD\) is not supported: the error is not distinguished"),
        ("REPERROR (-803, IGNORE)", r"Oracle errors that are: 1, 1403, 1400"),
        ("REPERROR (1400, DISCARD)", "1400 and 1407 are one error here.* to 1407 is ABEND"),
        ("REPERROR (DEFAULT, EXCEPTION)", "EXCEPTION is not supported: there is no exceptions table"),
        ("REPERROR (1403, EXCEPTION)", "EXCEPTION is not supported: there is no exceptions table"),
        ("REPERROR (60, RETRYOP MAXRETRIES 3)", "RETRYOP MAXRETRIES 3 is not supported: operations are not"),
        ("REPERROR (1403, TRANSABORT)", "TRANSABORT is not supported: operations are not retried"),
        ("REPERROR (1, TRANSEXCEPTION)", "TRANSEXCEPTION is not supported: there is no exceptions"),
        ("REPERROR (1, DISCARDS)", "the response DISCARDS is not supported.*Responses are ABEND, DISCARD"),
        ("REPERROR (ORA-1, DISCARD)", "expected"),
        ("REPERROR (DUPLICATE, DISCARD)", "expected DEFAULT or the number of an error"),
        ("REPERROR 1403", "expected .DEFAULT, ABEND."),
        ("MAP a.b, TARGET c.d; REPERROR (1, DISCARD)", "REPERROR follows a MAP"),
        ("MAP a.b, TARGET c.d, REPERROR (1, DISCARD);", "REPERROR.*is not supported: .*the first MAP"),
    ],
)  # fmt: skip
def test_what_would_be_answered_otherwise_is_refused_with_its_line(line: str, problem: str) -> None:
    text = f"REPLICAT r\n{line.replace('; ', ';' + chr(10))}\n{MAP}\n"
    with pytest.raises(OptionError, match=problem) as found:
        parse_replicat(text, "rep.prm")
    assert f"rep.prm, line {3 if '; ' in line else 2}" in str(found.value)


def test_a_response_is_stated_in_one_place_and_once(folder: Path) -> None:
    with pytest.raises(OptionError, match=r"--on-error is discard, but the parameter file states"):
        applied(folder, parameters("1403, IGNORE"), [inserted(1, 1)], on_error="discard")
    with pytest.raises(OptionError, match="the response to 1403 is given twice"):
        parse_replicat(parameters("1403, IGNORE", "1403, ABEND"))


def test_an_error_keeps_its_numbers_between_processes() -> None:
    error = ApplyError("no row").with_numbers((1403,))
    back = pickle.loads(pickle.dumps(error))
    assert ErrorResponses("stop", {1403: "ignore"}).response_to(back) == "ignore"
    assert ErrorResponses("stop", {1403: "ignore"}).response_to(ApplyError("no key")) == "stop"
