"""Rows that are made in whole columns are those that are made one by one, to the byte."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from laws import examples
from trailgate.cli import show_rows
from trailgate.model.changes import OPERATIONS_SCHEMA
from trailgate.terminal.batches import RowForm, print_batches
from trailgate.terminal.flags import OutputFormat
from trailgate.terminal.output import printable
from trailgate.terminal.plain_values import row_dictionaries
from trailgate.terminal.table_columns import DOUBLE, NARROW, display_widths

LETTERS = "aB7 =\t\n\x00\x7fé\xad\u0301µЖλ漢カ한\uff21😀"
PLAIN = st.text("aB7 =", max_size=9) | st.integers(0, 45).map("x".__mul__)
STRINGS = st.one_of(PLAIN, PLAIN, PLAIN, st.text("aé漢 ", max_size=5), st.text(LETTERS, max_size=2))
VALUES = st.none() | STRINGS
MAPS = st.none() | st.dictionaries(
    st.sampled_from(["ID", "NAME", "LONG_NAME", "é"]), VALUES, max_size=4
)
ROWS = st.fixed_dictionaries(
    {
        "table": st.none() | st.sampled_from(["MY.T", "MY.LONGER_TABLE", "MÜ.T"]),
        "op_type": st.none() | st.sampled_from("IUKDT"),
        "op_ts": st.none() | st.integers(0, 4_000_000_000).map(lambda n: n * 500_000),
        "tx_id": st.none() | st.sampled_from(["1", "t2", "long id 3"]) | STRINGS,
        "tx_ind": st.none() | st.sampled_from("BMEW"),
        "csn": VALUES,
        "seq_id": VALUES,
        "position": st.none() | st.just("") | st.integers(0, 10**11).map(lambda n: f"{n:020}"),
        "tx_owner": VALUES,
        "tx_name": VALUES,
        "before": MAPS,
        "after": MAPS,
        "tokens": MAPS,
    }
)


def batch_of(found: list[dict[str, Any]]) -> pa.RecordBatch:
    maps = ("before", "after", "tokens")
    plain = [
        {name: list(v.items()) if name in maps and v is not None else v for name, v in row.items()}
        for row in found
    ]
    return pa.RecordBatch.from_pylist(plain, schema=OPERATIONS_SCHEMA)


def printed(
    batches: list[pa.RecordBatch],
    form: RowForm,
    width: int,
    names: Sequence[str] = OPERATIONS_SCHEMA.names,
    **options: Any,
) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", str(width))
        patched.setattr("sys.stdout", out := io.StringIO())
        print_batches(batches, names, form, limit=1000, **options)
    return out.getvalue()


@settings(max_examples=examples(150))
@given(
    found=st.lists(ROWS, max_size=6), first=st.lists(ROWS, min_size=1, max_size=2), data=st.data()
)
def test_operations_in_columns_are_printed_as_one_by_one(
    found: list[dict[str, Any]], first: list[dict[str, Any]], data: st.DataObject
) -> None:
    wide = data.draw(st.booleans())
    form = show_rows.FORMS[False, wide]
    batches = [batch_of(first), batch_of(found).slice(data.draw(st.integers(0, len(found))))]
    width = data.draw(st.sampled_from([40, 300]) | st.integers(90, 160))

    in_columns = printed(batches, form, width, wide=wide)

    assert in_columns == printed(batches, replace(form, columns=None), width, wide=wide)


def test_lines_are_as_long_as_they_may_be() -> None:
    empty = dict.fromkeys(OPERATIONS_SCHEMA.names)
    batch = batch_of([{**empty, "after": {"A": "x" * n, "B": "y" * 20}} for n in range(100)])
    form = show_rows.OPERATIONS

    in_columns = printed([batch], form, 100, wide=False)

    assert in_columns == printed([batch], replace(form, columns=None), 100, wide=False)
    assert max(map(len, in_columns.splitlines())) == 100


def test_characters_that_are_measured_by_their_range_are_printable_and_have_that_width() -> None:
    for pattern, width in ((NARROW, 1), (DOUBLE, 2)):
        bounds = [int(code, 16) for code in re.findall(r"[0-9A-F]{2,}", pattern)]
        for low, high in zip(bounds[::2], bounds[1::2], strict=True):
            strings = [chr(code) for code in range(low, high + 1)]
            assert display_widths(pa.array(strings)).tolist() == [width] * len(strings)
            assert [
                text for text in strings if cell_len(text) != width or printable(text) != text
            ] == []


def test_a_value_that_becomes_empty_is_shown_so() -> None:
    row = {"before": {"NAME": "old"}, "after": {"NAME": ""}, "op_type": "U"}

    (shown,) = row_dictionaries(batch_of([{**dict.fromkeys(OPERATIONS_SCHEMA.names), **row}]))
    parts = show_rows.OPERATIONS.parts(shown, lambda text, _: text).data

    assert [part.text for part in parts] == ["NAME=old -> "]


COLUMNS = {
    "text": (pa.string(), st.none() | st.text('aé\n\t"\\,\r\x00\x7f ', max_size=5)),
    "time": (pa.timestamp("us"), st.none() | st.integers(-(10**15), 10**16)),
    "zoned": (pa.timestamp("us", "UTC"), st.none() | st.integers(-(10**15), 10**16)),
    "whole": (pa.int64(), st.none() | st.integers(-(1 << 63), (1 << 63) - 1)),
    "byte": (pa.uint8(), st.none() | st.integers(0, 255)),
    "flag": (pa.bool_(), st.none() | st.booleans()),
    "real": (pa.float64(), st.none() | st.floats()),
    "amount": (pa.decimal128(9, 2), st.none() | st.decimals(-999, 999, places=2)),
    "bytes": (pa.binary(), st.none() | st.binary(max_size=4)),
    "list": (pa.list_(pa.string()), st.none() | st.lists(st.text("a,", max_size=2), max_size=2)),
    "map": (
        pa.map_(pa.string(), pa.string()),
        st.none() | st.lists(st.tuples(st.text('k"', max_size=2), VALUES), max_size=3),
    ),
}


@settings(max_examples=examples(150))
@given(data=st.data())
def test_lines_of_json_and_csv_in_columns_are_those_of_rows(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), max_size=4))
    names = [f"{data.draw(st.sampled_from(['c', 'é', chr(34)]))}{n}" for n in range(len(kinds))]
    count = data.draw(st.integers(0, 4))
    arrays = [
        pa.array(
            data.draw(st.lists(COLUMNS[kind][1], min_size=count, max_size=count)), COLUMNS[kind][0]
        )
        for kind in kinds
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names).slice(data.draw(st.integers(0, count)))

    lines = printed([batch], show_rows.OPERATIONS, 140, format=OutputFormat.JSON, names=names)
    cells = printed([batch], show_rows.OPERATIONS, 140, format=OutputFormat.CSV, names=names)

    assert lines == "".join(f"{as_json(row)}\n" for row in row_dictionaries(batch))
    written = [names, *(row.values() for row in row_dictionaries(batch))] if names else [[]]
    assert cells == "".join(f"{','.join(map(cell, values))}\n" for values in written)


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def cell(value: Any) -> str:
    if value is None:
        return ""
    text = as_json(value) if isinstance(value, (dict, list, bool)) else str(value)
    if text and not re.search(r'[",\r\n]', text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
