"""Convert Arrow columns of any type to values that JSON and a printed table can show.

The result holds only None, true and false, numbers, text, lists and dictionaries. pyarrow's own
conversion fails for some values that a query can return: dates outside the years 1 to 9999,
nanoseconds if pandas is not installed, and maps whose keys are structs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.iso_times import format_iso_dates, format_iso_timestamps
from trailgate.columnar.maps import map_entries
from trailgate.terminal.output import NULL, printable

SECONDS: Final = 1_000_000_000  # nanoseconds
UNITS: Final = {"s": SECONDS, "ms": 1_000_000, "us": 1000, "ns": 1}  # nanoseconds
Row = dict[str, Any]


def values_of(column: pa.Array) -> list[Any]:
    """Convert a column to values for printing: times in ISO form, maps as dictionaries, bytes in hex.

    A column of decimals without fraction digits becomes numbers, other decimals become text. Floats
    that JSON cannot express (NaN, Infinity and -Infinity) become text too.
    """
    # Python's integers have any number of digits, so these decimals stay numbers without loss.
    if pa.types.is_decimal(column.type) and not column.type.scale:
        return [None if value is None else int(value) for value in column.to_pylist()]
    return _values(column)


def _values(column: pa.Array) -> list[Any]:
    """Convert a column that may be inside another one: a decimal inside a list becomes text."""
    convert = next((row.convert for row in CONVERSIONS if row.matches(column.type)), None)
    values: list[Any] = column.to_pylist() if convert is None else convert(column)
    return values


def _each(change: Callable[[Any], Any]) -> Callable[[pa.Array], list[Any]]:
    """Create a conversion of a column: call ``change`` with each Python value except None."""
    return lambda column: [None if one is None else change(one) for one in column.to_pylist()]


def plain_float(value: float) -> float | str:
    """Return a float, or its name if JSON has no number for it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _structs(column: pa.StructArray) -> list[Any]:
    names = [column.type.field(i).name for i in range(column.type.num_fields)]
    parts = [_values(part) for part in column.flatten()]
    # Without members there are no parts, and zip would yield no row at all.
    rows: Iterable[tuple[Any, ...]] = zip(*parts, strict=True) if parts else [()] * len(column)
    return [
        dict(zip(names, row, strict=True)) if valid else None
        for valid, row in zip(column.is_valid().to_pylist(), rows, strict=True)
    ]


def _lists(column: pa.ListArray) -> list[Any]:
    # ``flatten`` omits the items of null lists, so a null list takes no items below.
    items = iter(_values(column.flatten()))
    sizes = pc.list_value_length(column).to_pylist()
    valid = column.is_valid().to_pylist()
    return [
        list(islice(items, size or 0)) if there else None
        for size, there in zip(sizes, valid, strict=True)
    ]


def _maps(column: pa.MapArray) -> list[Any]:
    keys, values, rows = map_entries(column)
    maps: list[Any] = [{} if valid else None for valid in column.is_valid().to_pylist()]
    for key, value, row in zip(_values(keys), _values(values), rows.tolist(), strict=True):
        maps[row][key if isinstance(key, str) else json.dumps(key, ensure_ascii=False)] = value
    return maps


def printed_texts(column: pa.Array) -> pa.Array | None:
    """Convert a column of text, dates or times to the strings that are printed, times in ISO form. Other types give None."""
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_timestamp(kind):
        return format_iso_timestamps(column)
    if pa.types.is_date(kind):
        return format_iso_dates(column)
    return column.cast(pa.string()) if _IS_TEXT(kind) else None


def _durations(column: pa.Array) -> list[Any]:
    """Format durations like intervals without months and days."""
    size = UNITS[column.type.unit]
    counts = column.cast(pa.int64()).to_pylist()
    return [None if count is None else _interval_text((0, 0, count * size)) for count in counts]


def _interval_text(value: Any) -> str:
    """Format an Arrow interval for JSON or a printed table, as ISO 8601 does: 14 months, 3 days and 4.5 seconds are ``P14M3DT4.5S``."""
    months, days, nanoseconds = value
    seconds, fraction = divmod(abs(nanoseconds), SECONDS)
    sign = "-" if nanoseconds < 0 else ""
    decimals = f".{fraction:09}".rstrip("0") if fraction else ""
    parts = [f"{months}M" if months else "", f"{days}D" if days else ""]
    # An interval of nothing is PT0S, since ISO 8601 requires at least one part.
    time = f"T{sign}{seconds}{decimals}S" if nanoseconds or not any(parts) else ""
    return f"P{''.join(parts)}{time}"


class _Conversion(NamedTuple):
    """How columns of the types that ``matches`` selects become values for printing."""

    matches: Callable[[pa.DataType], bool]
    convert: Callable[[pa.Array], list[Any]]


def _texts(column: pa.Array) -> list[Any]:
    texts = printed_texts(column)
    assert texts is not None
    return texts.to_pylist()  # type: ignore[no-any-return]


def _is_one_of(*tests: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], bool]:
    return lambda kind: any(test(kind) for test in tests)


_IS_TEXT: Final = _is_one_of(
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_timestamp, pa.types.is_date, pa.types.is_time),
)
_IS_BYTES: Final = _is_one_of(
    *(pa.types.is_binary, pa.types.is_large_binary),
    *(pa.types.is_fixed_size_binary, pa.types.is_binary_view),
)
_IS_LIST: Final = _is_one_of(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
# The first row that matches a type counts. Types without a row are as Python has them.
CONVERSIONS: Final = (
    _Conversion(
        lambda kind: isinstance(kind, pa.BaseExtensionType), lambda column: _values(column.storage)
    ),
    _Conversion(pa.types.is_dictionary, lambda column: _values(column.dictionary_decode())),
    _Conversion(_IS_TEXT, _texts),
    _Conversion(pa.types.is_floating, _each(plain_float)),
    _Conversion(pa.types.is_decimal, _each(lambda value: format(value, "f"))),
    _Conversion(_IS_BYTES, _each(bytes.hex)),
    _Conversion(pa.types.is_interval, _each(_interval_text)),
    _Conversion(pa.types.is_duration, _durations),
    _Conversion(pa.types.is_struct, _structs),
    _Conversion(_IS_LIST, _lists),
    _Conversion(pa.types.is_map, _maps),
)


def json_text(value: Any) -> str:
    """Format a plain value (see ``plain_values``) as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)


def plain_text(value: Any) -> str | None:
    """Format a plain value as the text of a cell: JSON for nested values. NULL stays None."""
    if value is None:
        return None
    return json_text(value) if isinstance(value, (dict, list, bool)) else str(value)


def row_dictionaries(batch: pa.RecordBatch) -> list[Row]:
    """Convert the rows of a record batch to dictionaries of plain values: times in ISO form, maps as dictionaries, bytes in hex."""
    names = batch.schema.names
    columns = map(values_of, batch.columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def short_time(text: str | None) -> str:
    """Format one time for a printed table: ISO form without zone, and without a zero fraction."""
    return (text or "").replace("T", " ").removesuffix("Z").removesuffix(".000000")


def value_text(value: str | None) -> str:
    """Format a value for a printed table: NULL for None, control characters escaped."""
    return NULL if value is None else printable(value)


def cell_text(value: Any) -> str:
    """Format a value for a cell of a printed table."""
    return value_text(plain_text(value))


def row_texts(batch: pa.RecordBatch) -> Iterator[tuple[str | None, ...]]:
    """Convert the rows of an Arrow batch to tuples of strings. None is NULL."""
    columns = ([plain_text(value) for value in values_of(column)] for column in batch)
    return zip(*columns, strict=True)
