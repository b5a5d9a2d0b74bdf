"""Dates and times from text: equal to a reading value by value with datetime."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trailgate.columnar.temporal import (
    DB2_FORMAT,
    DEFAULT_FORMAT,
    DateFormat,
    compile_format,
    iso_to_timestamp,
    parse_datetimes,
    parse_timestamps,
)
from trailgate.errors import DecodeError, OptionError, TrailgateError

times = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59))  # noqa: DTZ001
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("form", "value", "width", "iso"),
    [
        ("YYYY-MM-DD-HH.MM.SS.FF", "2006-06-30-18.00.52.12", 26, "2006-06-30 18:00:52.120000"),
        ("YYYY-MM-DD-HH.MM.SS.FF", "2006-06-30-18.00.52.123", 23, "2006-06-30 18:00:52.123"),
        ("MM/DD/YYYY-HH:MM:SS", "06/30/2006-18:00:52", 19, "2006-06-30 18:00:52"),
        ("DD/MM/YY-HH.MI.SS", "30/06/10-18.00.52", 19, "2010-06-30 18:00:52"),
        ("DD/MMM/YYYY", "30/Jun/2006", 10, "2006-06-30"),
        ("M/D/YYYY", "6/30/2006", 10, "2006-06-30"),
        ("M/D/YYYY", "12/3/2006", 19, "2006-12-03 00:00:00"),
        ("YYMMDD", "100522", 10, "2010-05-22"),
        ("MMYYYY", "062006", 10, "2006-06-01"),
        ("YYMM", "5006", 7, "1950-06"),
        ("YYYY-MM-DDxyz", "2020-01-02xyz", 19, "2020-01-02 00:00:00"),
        ("HH:MI", "10:11", 16, "1970-01-01 10:11"),
        ("YYYY-MM-DDTHH:MI:SSZ", "2026-01-05T09:00:00Z", 19, "2026-01-05 09:00:00"),
        ("YYYY-MM-DDTHH:MI:SS.FFFZ", "2026-01-05T09:00:00.5Z", 21, "2026-01-05 09:00:00.5"),
        ("F3 SS", "120 01", 22, "1970-01-01 00:00:01.12"),
    ],
)
def test_a_format_reads_its_value(form: str, value: str, width: int, iso: str) -> None:
    column = pa.array([value, None, f" {value}\n"])

    assert parse_datetimes(column, compile_format(form), width).to_pylist() == [iso, None, iso]


MIDNIGHTS = [
    (DEFAULT_FORMAT, "2026-02-05T24:00:00", "2026-02-06"),
    (DEFAULT_FORMAT, "2026-02-05 24:00:00.000000", "2026-02-06"),
    (DEFAULT_FORMAT, "2026-02-05:24:00", "2026-02-06"),
    (DB2_FORMAT, "2026-02-05-24.00.00.000000", "2026-02-06"),
    (DB2_FORMAT, "2026-02-05-24.00.00", "2026-02-06"),
    (DB2_FORMAT, "2026-02-05-24.00.00.000000000000", "2026-02-06"),
    (DB2_FORMAT, "2025-12-31-24.00.00.0", "2026-01-01"),
    (DB2_FORMAT, "2024-02-28-24.00.00.0", "2024-02-29"),
    (DB2_FORMAT, "2024-02-29-24.00.00.0", "2024-03-01"),
    (DB2_FORMAT, "1900-02-28-24.00.00.0", "1900-03-01"),
    (DB2_FORMAT, "2026-04-30 24:00:00", "2026-05-01"),
    (compile_format("DD.MM.YYYY HH:MI:SS"), "31.01.2026 24:00:00", "2026-02-01"),
    (compile_format("DD-MMM-YY HH.MI.SS"), "31-JAN-26 24.00.00", "2026-02-01"),
]


@pytest.mark.parametrize(("form", "value", "day"), MIDNIGHTS)
@pytest.mark.parametrize("among", [1, 3000])  # interpreted and compiled
def test_24_00_00_is_the_midnight_after_its_day(
    form: DateFormat, value: str, day: str, among: int
) -> None:
    column = pa.array([value] * among)
    micros, _ = parse_timestamps(column, form)

    for width, time in ((10, ""), (19, " 00:00:00"), (26, " 00:00:00.000000")):
        assert parse_datetimes(column, form, width).to_pylist() == [day + time] * among
    assert EPOCH + timedelta(microseconds=int(micros[-1])) == datetime.fromisoformat(day)


def test_a_time_without_a_day_has_no_next_one() -> None:
    with pytest.raises(DecodeError):
        parse_datetimes(pa.array(["24:00"]), compile_format("HH:MI"), 19)


@pytest.mark.parametrize("form", ["", "--", "YYYYMD", "YYYY-YYYY", "QQ", "F13", "YYYY.FF"])
def test_a_format_that_is_not_understood_is_refused(form: str) -> None:
    with pytest.raises(OptionError):
        compile_format(form)


def test_a_format_survives_pickle() -> None:
    assert pickle.loads(pickle.dumps(DEFAULT_FORMAT)) == DEFAULT_FORMAT


@pytest.mark.parametrize(
    ("value", "width"),
    [
        ("2021-02-29", 10),
        ("1900-02-29", 10),
        ("0000-01-01", 10),
        ("2020-13-01", 10),
        ("2020-00-01", 10),
        ("2020-01-00", 10),
        ("2020-04-31", 10),
        ("2020-01-01 24:00:01", 19),
        ("2020-01-01 24:01:00", 19),
        ("2020-01-01 24:00:00.000001", 26),
        ("2020-01-01 25:00:00", 19),
        ("2020-02-30 24:00:00", 19),
        ("9999-12-31 24:00:00", 19),
        ("2020-01-01 23:60:00", 19),
        ("2020-01-01 23:00:60", 19),
        ("2020-01-01 00:00:01", 10),
        ("2020-01-01 00:00:01.12", 21),
        ("2020-01-01 00:00:01.1234567890", 19),
        ("2020-01-01 00:00:01.0000000001", 29),
        ("", 10),
        ("2020/01/01", 10),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_row(value: str, width: int) -> None:
    column = pa.array(["2020-01-01", None, "2020-01-01:00:00:00", value])

    with pytest.raises(DecodeError) as caught:
        parse_datetimes(column, DEFAULT_FORMAT, width)

    assert (caught.value.where.record, caught.value.where.raw) == (3, value.encode())


@given(st.lists(st.none() | times), st.sampled_from(" T:"), st.integers(0, 6))
def test_default_times_equal_the_naive_reading(
    values: list[datetime | None], separator: str, digits: int
) -> None:
    cut = [
        v and v.replace(microsecond=v.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
        for v in values
    ]
    strings = [
        v and v.isoformat(separator, "microseconds")[: 20 + digits if digits else 19] for v in cut
    ]
    column = pa.array(strings, pa.string())
    iso = parse_datetimes(column, DEFAULT_FORMAT, 26)

    assert iso.to_pylist() == [v and v.isoformat(" ", "microseconds") for v in cut]
    assert iso_to_timestamp(iso, 26).to_pylist() == cut
    known = [v for v in cut if v]
    micros, beyond = parse_timestamps(column.drop_null(), DEFAULT_FORMAT)
    assert beyond == -1
    assert micros.tolist() == [(v - EPOCH) // timedelta(microseconds=1) for v in known]


@given(st.lists(st.dates()))
def test_dates_equal_the_naive_reading(values: list[datetime]) -> None:
    usual = compile_format("M/D/YYYY")
    column = pa.array([f"{v.month}/{v.day}/{v.year:04}" for v in values], pa.string())

    iso = parse_datetimes(column, usual, 10)

    assert iso.to_pylist() == [v.isoformat() for v in values]
    assert iso_to_timestamp(iso, 10).to_pylist() == values


@given(
    times,
    st.sampled_from([10, *range(19, 30)]),
    st.none() | st.tuples(st.integers(0, 28), st.sampled_from("0 9-:.Tx/é")),
)
def test_iso_strings_are_read_as_any_text_of_the_usual_format(
    value: datetime, width: int, change: tuple[int, str] | None
) -> None:
    text = f"{value.isoformat(' ', 'microseconds')}000"[:width]
    if change is not None:
        place, byte = change
        text = f"{text[:place]}{byte}{text[place + 1 :]}"[:width]
    column = pa.array([text])
    try:
        micros, beyond = parse_timestamps(column, DEFAULT_FORMAT)
    except DecodeError:
        beyond = 0
    if beyond >= 0:
        with pytest.raises(DecodeError):
            iso_to_timestamp(column, width)
        return

    found = iso_to_timestamp(column, width)
    days = found.view(pa.int32()).cast(pa.int64()).to_numpy() if width == 10 else None
    expected = micros.tolist()
    assert (
        found.view(pa.int64()).to_pylist() if days is None else (days * 86_400_000_000).tolist()
    ) == expected


@example(["2026-01-05 12:00:00"])
@given(st.lists(st.text("0123456789-: .TJANjan/é", max_size=24) | st.text(max_size=5)))
def test_any_text_gives_a_value_or_an_error_of_ours(values: list[str]) -> None:
    for form in (DEFAULT_FORMAT, compile_format("M/D/YY"), compile_format("MMM-D")):
        try:
            found = parse_datetimes(pa.array(values, pa.string()), form, 29)
        except TrailgateError:
            assert form is not DEFAULT_FORMAT or values != ["2026-01-05 12:00:00"]
            continue
        assert len(found) == len(values)


def test_milliseconds_are_read_without_a_format() -> None:
    column = pa.array(["1700000000123"])

    expected = datetime(2023, 11, 14, 22, 13, 20, 123000, UTC).timestamp()
    assert parse_timestamps(column, None)[0].tolist() == [round(expected * 1e6)]
    for bad in ("12345", "99999999999999999", "-1700000000123", "2020-01-01"):
        with pytest.raises(DecodeError):
            parse_timestamps(pa.array([bad]), None)


@pytest.mark.parametrize(
    "number",
    ["1700000000", "202601050900", "20260105090000", "1700000000123456", "20260105090000123"],
)
def test_seconds_and_dates_in_digits_are_not_taken_for_milliseconds(number: str) -> None:
    with pytest.raises(DecodeError, match=f"'{number}'.*which have 13 digits"):
        parse_timestamps(pa.array([number]), None)


def test_commit_times_are_cut_to_microseconds_and_the_first_row_is_named() -> None:
    strings = ["2020-01-01 00:00:00.123456000", *2 * ["1969-12-31 23:59:59.999999999"]]
    micros, first = parse_timestamps(pa.array(strings), DEFAULT_FORMAT)

    assert micros.tolist() == [1_577_836_800_123_456, -1, -1]
    assert first == 1


def test_digits_beyond_microseconds_are_not_lost() -> None:
    with pytest.raises(DecodeError, match="record 1"):
        iso_to_timestamp(pa.array([None, "2020-01-01 00:00:00.000000001"]), 29)
