"""Format operations and records of a trail as rows of a table, for ``trailgate show``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from trailgate.model.positions import short_position
from trailgate.terminal.batches import Paint, RowForm
from trailgate.terminal.layout import PaintedText, TableRow
from trailgate.terminal.output import printable
from trailgate.terminal.plain_values import Row, short_time, value_text
from trailgate.terminal.table_columns import operation_columns

ROWS: Final = 100  # rows of a table by default
# The hint of RECORDS states this limit too, as 12 bytes.
DATA_SHOWN: Final = 24  # hexadecimal digits shown of a record's data
KINDS: Final = {"I": "green", "U": "yellow", "K": "yellow", "D": "red", "T": "red"}

Values = dict[str, str | None]
_RECORD_HEAD: Final = (
    "position",
    "length",
    "io_type",
    "type_name",
    "table",
    "image",
    "trans_ind",
    "io_time",
)
_CONTENTS: Final = ("problem", "tokens", "user_tokens", "ddl", "data")
_HEADINGS: Final = ("position", "time", "tx", "table", "op")
_OF_RECORDS: Final = ("position", "length", "type", "table", "image", "tx", "time")


def _operation(row: Row, paint: Paint) -> TableRow:
    op = row["op_type"] or ""
    head = (
        short_position(row["position"]),
        short_time(row["op_ts"]),
        f"{row['tx_ind'] or ''} {row['tx_id'] or ''}",
        row["table"] or "",
    )
    parts = [PaintedText(text, text) for text in map(printable, head)]
    kind = PaintedText(op, paint(op, KINDS.get(op, "bold")))
    return TableRow([*parts, kind], list(_change(row["before"] or {}, row["after"] or {}, paint)))


def _wide_operation(row: Row, paint: Paint) -> TableRow:
    """Format an operation of a trail with its CSN, owner, name and tokens (``--wide``)."""
    head, data = _operation(row, paint)
    more = [_name(name, row[name], paint) for name in ("csn", "tx_owner", "tx_name") if row[name]]
    tokens = [_name(f"@{key}", value, paint) for key, value in (row["tokens"] or {}).items()]
    return TableRow(head, [*data, *more, *tokens])


def _change(before: Values, after: Values, paint: Paint) -> Iterator[PaintedText]:
    """Yield an operation's columns as ``NAME=value``, or ``NAME=old -> new`` if they differ."""
    for name in dict.fromkeys([*after, *before]):
        label = paint(f"{name}=", "dim")
        if name not in after:
            # A delete has no after image, so its values are shown alone.
            old, new = value_text(before[name]), "not logged" if after else None
        elif name in before and before[name] != after[name]:
            old, new = value_text(before[name]), value_text(after[name])
        else:
            text = value_text(after[name])
            yield PaintedText(f"{name}={text}", f"{label}{text}")
            continue
        if new is None:
            yield PaintedText(f"{name}={old}", f"{label}{old}")
        else:
            painted = f"{label}{paint(old, 'red')} -> {paint(new, 'green')}"
            yield PaintedText(f"{name}={old} -> {new}", painted)


def _name(name: str, value: Any, paint: Paint) -> PaintedText:
    text = value_text(value if value is None else str(value))
    return PaintedText(f"{name}={text}", paint(f"{name}=", "dim") + text)


def _record(row: Row, paint: Paint) -> TableRow:
    return TableRow(_record_head(row), list(_contents(row, paint, DATA_SHOWN)))


def _wide_record(row: Row, paint: Paint) -> TableRow:
    """Format a trail record with its complete header and data (``--wide``)."""
    shown = {*_RECORD_HEAD, *_CONTENTS}
    rest = (name for name, value in row.items() if name not in shown and value is not None)
    header = [_name(name, row[name], paint) for name in rest]
    return TableRow(_record_head(row), [*header, *_contents(row, paint, None)])


def _record_head(row: Row) -> list[PaintedText]:
    head = (
        short_position(row["position"]),
        str(row["length"]),
        f"{row['io_type']} {row['type_name']}",
        row["table"] or "",
        row["image"] or "",
        "" if row["trans_ind"] is None else str(row["trans_ind"]),
        short_time(row["io_time"]),
    )
    return [PaintedText(text, text) for text in map(printable, head)]


def _contents(row: Row, paint: Paint, shown: int | None) -> Iterator[PaintedText]:
    """Yield the contents of a trail record: a problem first, then its tokens, then its data in hex.

    At most ``shown`` hex digits of the data are shown (None: all).
    """
    if row["problem"]:
        problem = f"! {printable(row['problem'])}"
        yield PaintedText(problem, paint(problem, "red"))
    for name in ("tokens", "user_tokens", "ddl"):
        for key, value in (row[name] or {}).items():
            yield _name(key, value, paint)
    data = row["data"]
    if data:
        cut = shown is not None and len(data) > shown
        text = f"{data[:shown]}..." if cut else data
        yield PaintedText(text, text)


OPERATIONS: Final = RowForm(
    headings=_HEADINGS,
    parts=_operation,
    rows=ROWS,
    data="columns",
    hidden="Not shown: csn, tokens, and the transaction's owner and name. --wide and --format json show them.",
    columns=partial(operation_columns, wide=False),
)
WIDE_OPERATIONS: Final = RowForm(
    _HEADINGS, _wide_operation, ROWS, "columns", columns=partial(operation_columns, wide=True)
)
RECORDS: Final = RowForm(
    _OF_RECORDS,
    _record,
    ROWS,
    "holds",
    "Not shown: the rest of the headers, and data after 12 bytes. --wide and --format json show them.",
)
WIDE_RECORDS: Final = RowForm(_OF_RECORDS, _wide_record, ROWS, "holds")

# The form for (records instead of operations, --wide).
FORMS: Final = MappingProxyType(
    {
        (False, False): OPERATIONS,
        (False, True): WIDE_OPERATIONS,
        (True, False): RECORDS,
        (True, True): WIDE_RECORDS,
    }
)
