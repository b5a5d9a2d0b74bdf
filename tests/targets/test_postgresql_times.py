"""Dates and times as PostgreSQL prints them, in Arrow and back, also those that Python lacks."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pytest

from trailgate.apply.targets.postgresql_times import format_times, parse_times

DAYS: Final = {
    "2026-01-05": 20458,
    "0001-01-01": -719162,
    "0001-12-31 BC": -719163,
    "0002-12-31 BC": -719529,
    "4713-11-24 BC": -2440222,
    "9999-12-31": 2932896,
    "10000-01-01": 2932897,
    "5874897-12-31": 2145042905,
    "infinity": 2147483647,
    "-infinity": -2147483647,
}
MICROSECONDS: Final = {
    "2026-01-05 12:00:00.500000": 1767614400500000,
    "0001-12-31 23:59:59.999999 BC": -62135596800000001,
    "4714-11-24 00:00:00.000000 BC": -210866803200000000,
    "10000-01-01 00:00:00.000001": 253402300800000001,
    "294246-12-31 23:59:59.999999": 9223371244799999999,
    "infinity": 9223372036854775807,
    "-infinity": -9223372036854775807,
}


@pytest.mark.parametrize(
    ("texts", "kind"),
    [(DAYS, pa.date32()), (MICROSECONDS, pa.timestamp("us"))],
)
def test_dates_and_times_are_their_distance_from_1970(
    texts: dict[str, int], kind: pa.DataType
) -> None:
    found = parse_times([*texts, None], kind)
    width = pa.int32() if kind == pa.date32() else pa.int64()
    assert found.type == kind
    assert found.cast(width).to_pylist() == [*texts.values(), None]
    assert format_times(pa.chunked_array([found])).to_pylist() == [*texts, None]


def test_times_with_a_zone_are_those_of_utc() -> None:
    printed = ["2026-01-05 12:00:00+00", "0001-12-31 00:00:00+00 BC", "20000-01-01 00:00:00.5+00"]
    plain = [one.replace("+00", "") for one in printed]
    found = parse_times(printed, pa.timestamp("us", "UTC"))
    assert found.cast(pa.int64()) == parse_times(plain, pa.timestamp("us")).cast(pa.int64())


def test_usual_times_are_left_to_arrow() -> None:
    usual = pa.chunked_array([parse_times(["2026-01-05", None], pa.date32())])
    empty = pa.chunked_array([], pa.timestamp("us"))
    for column in (usual, empty):
        assert format_times(column) is column


def test_a_time_too_far_for_64_bits_is_an_error() -> None:
    with pytest.raises(OverflowError):
        parse_times(["294276-12-31 00:00:00"], pa.timestamp("us"))
